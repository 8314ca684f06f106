/** Decides how a search runs: over all nodes in slices, first hits at once, counts as it goes. */

import type { Call } from "../base/rpc";
import type { Hierarchy } from "../model/hierarchy";
import { compileQuery, parseQuery } from "../model/query";
import type { ItemRef, SearchArg, SearchResult } from "./api";
import { itemRef, lightGroups } from "./queries";

/** Rows looked at before the clock is read. */
const SLICE = 4000;

export async function search(h: Hierarchy, arg: SearchArg, call: Call): Promise<SearchResult> {
  const terms = parseQuery(arg.query);
  const { stage } = h;
  const lit = new Uint8Array(h.nodes + h.groups);
  const hits: ItemRef[] = [];
  let total = 0;
  const groups = searchGroups(h, arg, hits);
  if (terms.length > 0) {
    const test = compileQuery(stage.graph, terms);
    let last = performance.now();
    for (let n = 0; n < h.nodes; n++) {
      const r = stage.row[n];
      if (r >= 0 && test(r)) {
        lit[n] = 1;
        total++;
        if (hits.length < arg.limit) hits.push(itemRef(h, n));
      }
      if (n % SLICE === SLICE - 1 && performance.now() - last > 40) {
        call.progress({ text: arg.query, done: n, total: h.nodes });
        await call.breathe();
        last = performance.now();
      }
    }
  }
  lightGroups(h, lit);
  for (const g of groups) lit[g] = 1;
  return { hits, total: total + groups.length, nodes: total, groups: groups.length, lit };
}

/** Groups whose title or class holds the words, when the query is words alone. */
function searchGroups(h: Hierarchy, arg: SearchArg, hits: ItemRef[]): number[] {
  const terms = parseQuery(arg.query);
  if (terms.length === 0 || terms.some((t) => t.field !== "" || t.not)) return [];
  const out: number[] = [];
  for (let g = 1; g < h.groups; g++) {
    if (h.raw[g] < 0) continue;
    const raw = h.rows.file[h.raw[g]];
    const { strings, groups } = h.stage.graph;
    const name = strings.head(groups.name[raw], 200);
    const cls = strings.head(groups.cls[raw], 200);
    const holds = terms.every((t) => (t.regex ? t.regex.test(name) || t.regex.test(cls) : name.toLowerCase().includes(t.text) || cls.toLowerCase().includes(t.text)));
    if (!holds) continue;
    out.push(h.nodes + g);
    if (hits.length < arg.limit / 2) hits.push(itemRef(h, h.nodes + g));
  }
  return out;
}
