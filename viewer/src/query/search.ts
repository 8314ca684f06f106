/** What a search answers: how many, the best first, and which boxes light up. */

import { countIn } from "../model/counts";
import { groupClass, groupSubtitle, groupTitle, nodeSubtitle, nodeTitle, soleHome } from "../model/labels";
import { familyOf, FAMILIES } from "../layout/family";
import { parseQuery, QueryError, type Query } from "./language";
import { find } from "./match";
import { byItem, measure, type Unit } from "./measures";
import type { Shown } from "./shown";
import { lightGroups } from "./trace";

export interface Hit {
  readonly item: number;
  readonly group: boolean;
  readonly title: string;
  readonly sub: string;
  readonly where: string;
  readonly family: string;
  /** The figure that was asked for ("time>10us"). */
  readonly figure: { readonly unit: Unit; readonly value: number } | null;
}

interface Figures {
  readonly title: string;
  readonly unit: Unit;
  readonly value: Float64Array;
  /** -1: largest first. */
  readonly sign: number;
}

/** The first figure that a query asks for, by item: hits are sorted by it. */
async function figuresOf(s: Shown, query: Query): Promise<Figures | null> {
  const term = query.flat().find((t) => t.type === "measure" && !t.not);
  const m = term?.type === "measure" ? await measure(s, term.name) : null;
  if (!m || term?.type !== "measure") return null;
  return { title: m.title, unit: m.unit, value: byItem(s.h, m), sign: term.compare.startsWith("<") ? 1 : -1 };
}

/** Hits by item, with the figures of the query that found them. */
export async function hitsOf(s: Shown, items: Int32Array, text: string): Promise<Hit[]> {
  const figures = await figuresOf(s, parseQuery(text));
  return Array.from(items, (i) => hitOf(s, i, figures));
}

export interface SearchResult {
  readonly problem: string;
  readonly nodes: number;
  /** Outputs of the graph that were found; they are no nodes. */
  readonly outputs: number;
  readonly groups: number;
  /** All nodes. */
  readonly total: number;
  /** What the hits are sorted by; "" for groups first, then nodes in order of computation. */
  readonly sorted: string;
  /** Items that were found; a module around one op stands for that op. */
  readonly items: Int32Array;
  readonly hits: readonly Hit[];
  /** Flags by item, groups around hits included: what stays bright. */
  readonly lit: Uint8Array;
}

export async function search(s: Shown, text: string, limit: number): Promise<SearchResult> {
  const { h } = s;
  const nothing = {
    nodes: 0,
    outputs: 0,
    groups: 0,
    total: countIn(h, 0, "nodes"),
    sorted: "",
    items: new Int32Array(0),
    hits: [],
    lit: new Uint8Array(0),
  };
  let lit: Uint8Array;
  let query: Query;
  try {
    query = parseQuery(text);
    if (query.length === 0) return { problem: "", ...nothing };
    lit = await find(s, query);
  } catch (e) {
    if (e instanceof QueryError) return { problem: e.message, ...nothing };
    throw e;
  }
  let nodes = 0;
  let outputs = 0;
  const list: number[] = [];
  const alone = new Set<number>(); // modules that are found as the one op that they hold
  for (let n = 0; n < h.nodes; n++) {
    if (!lit[n]) continue;
    if (n < h.stage.nodes) nodes++;
    else outputs++;
    const home = soleHome(h, n);
    if (home >= 0) alone.add(home);
    list.push(home >= 0 ? home : n);
  }
  const around: number[] = [];
  for (let g = 1; g < h.groups; g++) if (lit[h.nodes + g] && !alone.has(h.nodes + g)) around.push(h.nodes + g);
  const groups = around.length;
  const figures = await figuresOf(s, query);
  const items = Int32Array.from(around.concat(list));
  if (figures) items.sort((a, b) => figures.sign * (figures.value[a] - figures.value[b]) || a - b);
  const hits = Array.from(items.subarray(0, limit), (i) => hitOf(s, i, figures));
  lightGroups(h, lit);
  lightInside(s, around, lit);
  return {
    problem: "",
    nodes,
    outputs,
    groups,
    total: countIn(h, 0, "nodes"),
    items,
    hits,
    lit,
    sorted: figures ? `${figures.title}, ${figures.sign < 0 ? "largest" : "smallest"} first` : "",
  };
}

/** What is inside a group that was found stays bright too. */
function lightInside(s: Shown, groups: readonly number[], lit: Uint8Array): void {
  const { h } = s;
  for (const item of groups) {
    for (let p = h.start[item - h.nodes]; p < h.end[item - h.nodes]; p++) lit[h.order[p]] = 1;
  }
  if (groups.length > 0) lightGroups(h, lit);
}

export function hitOf(s: Shown, item: number, figures: Figures | null = null): Hit {
  const figure = figures ? { unit: figures.unit, value: figures.value[item] } : null;
  const { h } = s;
  const path: string[] = [];
  for (let p = h.parent[item]; p > h.nodes; p = h.parent[p]) path.push(groupTitle(h, p - h.nodes));
  const where = path.reverse().join(" › ");
  if (item >= h.nodes) {
    const g = item - h.nodes;
    return {
      item,
      group: true,
      title: groupTitle(h, g),
      sub: groupClass(h, g) ? groupSubtitle(h, g) : groupSubtitle(h, g),
      where,
      family: "mixed",
      figure,
    };
  }
  const r = h.stage.row[item];
  const kind = r < 0 ? "source" : h.stage.graph.strings.at(h.stage.graph.kind[r]);
  const name = r < 0 ? "" : h.stage.graph.strings.head(h.stage.graph.name[r], 100);
  const title = nodeTitle(h, item);
  return {
    item,
    group: false,
    title: name && name !== title && !name.endsWith(`/${title}`) ? `${title}  ${name}` : title,
    sub: nodeSubtitle(h, item),
    where,
    family: FAMILIES[familyOf(kind)],
    figure,
  };
}
