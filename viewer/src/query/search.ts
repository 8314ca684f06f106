/** Decides what a search answers: how many, the best first, and which boxes light up. */

import { groupClass, groupSubtitle, groupTitle, nodeSubtitle, nodeTitle } from "../model/labels";
import { familyOf, FAMILIES } from "../layout/family";
import { parseQuery, QueryError } from "./language";
import { find } from "./match";
import type { Shown } from "./shown";
import { lightGroups } from "./trace";

export interface Hit {
  readonly item: number;
  readonly group: boolean;
  readonly title: string;
  readonly sub: string;
  readonly where: string;
  readonly family: string;
}

export interface SearchResult {
  readonly problem: string;
  readonly nodes: number;
  /** Outputs of the graph that were found; they are no nodes. */
  readonly outputs: number;
  readonly groups: number;
  /** All nodes. */
  readonly total: number;
  /** Items that were found, groups first, then nodes in order of computation. */
  readonly items: Int32Array;
  readonly hits: readonly Hit[];
  /** Flags by item, groups around hits included: what stays bright. */
  readonly lit: Uint8Array;
}

export async function search(s: Shown, text: string, limit: number): Promise<SearchResult> {
  const { h } = s;
  const nothing = { nodes: 0, outputs: 0, groups: 0, total: h.stage.nodes, items: new Int32Array(0), hits: [], lit: new Uint8Array(0) };
  let lit: Uint8Array;
  try {
    const query = parseQuery(text);
    if (query.length === 0) return { problem: "", ...nothing };
    lit = await find(s, query);
  } catch (e) {
    if (e instanceof QueryError) return { problem: e.message, ...nothing };
    throw e;
  }
  let nodes = 0;
  let outputs = 0;
  let groups = 0;
  for (let i = 0; i < lit.length; i++) {
    if (!lit[i]) continue;
    if (i < h.stage.nodes) nodes++;
    else if (i < h.nodes) outputs++;
    else groups++;
  }
  const items = new Int32Array(nodes + outputs + groups);
  let at = 0;
  for (let g = 1; g < h.groups; g++) if (lit[h.nodes + g]) items[at++] = h.nodes + g;
  for (let n = 0; n < h.nodes; n++) if (lit[n]) items[at++] = n;
  const hits = Array.from(items.subarray(0, limit), (i) => hitOf(s, i));
  lightGroups(h, lit);
  lightInside(s, items.subarray(0, groups), lit);
  return { problem: "", nodes, outputs, groups, total: h.stage.nodes, items, hits, lit };
}

/** What is inside a group that was found stays bright too. */
function lightInside(s: Shown, groups: Int32Array, lit: Uint8Array): void {
  const { h } = s;
  for (const item of groups) {
    for (let p = h.start[item - h.nodes]; p < h.end[item - h.nodes]; p++) lit[h.order[p]] = 1;
  }
  if (groups.length > 0) lightGroups(h, lit);
}

export function hitOf(s: Shown, item: number): Hit {
  const { h } = s;
  const path: string[] = [];
  for (let p = h.parent[item]; p > h.nodes; p = h.parent[p]) path.push(groupTitle(h, p - h.nodes));
  const where = path.reverse().join(" › ");
  if (item >= h.nodes) {
    const g = item - h.nodes;
    return { item, group: true, title: groupTitle(h, g), sub: groupClass(h, g) ? groupSubtitle(h, g) : groupSubtitle(h, g), where, family: "mixed" };
  }
  const r = h.stage.row[item];
  const kind = r < 0 ? "source" : h.stage.graph.strings.at(h.stage.graph.kind[r]);
  const name = r < 0 ? "" : h.stage.graph.strings.head(h.stage.graph.name[r], 100);
  const title = nodeTitle(h, item);
  return {
    item, group: false, title: name && name !== title && !name.endsWith(`/${title}`) ? `${title}  ${name}` : title, sub: nodeSubtitle(h, item), where,
    family: FAMILIES[familyOf(kind)],
  };
}
