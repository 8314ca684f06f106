/** How the worker answers panels: every question is about what is shown right now. */

import type { Served } from "../base/rpc";
import type { Graph, GroupColumns } from "../model/graph";
import { groupKey, insideRow } from "../model/hierarchy";
import { INSIDE } from "../model/inside";
import { groupTitle, soleOp } from "../model/labels";
import type { GroupDetails, PanelApi } from "./api";
import { stageChanges } from "./changes";
import { colorData } from "./colors";
import { Details } from "./details";
import { icicle } from "./icicle";
import { toJson } from "./json";
import { kernelLines } from "./kernel_table";
import { groupPath, keysOf, signature } from "./likeness";
import { markGroups } from "./marks";
import { match } from "./matching";
import { memoryPlan } from "./memory";
import { measureNames } from "./measures";
import { itemsOf, nameOf } from "./names";
import { keysAround, Outline } from "./outline";
import { rankLanes } from "./ranks";
import { repairs } from "./repairs";
import { applyRules } from "./rules";
import { runFigures } from "./runs";
import { hitsOf, search } from "./search";
import type { Shown } from "./shown";
import { type Pause, summarize } from "./summary";
import { neighbours, trace } from "./trace";

export function panelMethods(shown: () => Shown): Served<PanelApi> {
  const outline = new Outline();
  return {
    summary: (_, call) => summarize(shown(), 0, () => call.giveWay()),
    node: (a) => new Details(shown()).node(a.item),
    group: (a, call) => groupDetails(shown(), a.item, () => call.giveWay()),
    source: (a) => sourceText(shown(), a.path),
    find: async (a, call) => {
      const found = await search(shown(), a.text, a.limit);
      call.transfer([found.items.buffer as ArrayBuffer, found.lit.buffer as ArrayBuffer]);
      return found;
    },
    hits: (a) => hitsOf(shown(), a.items, a.text),
    tree: (a) => outline.window(shown().h, a.open, a.from, a.count),
    members: (a) => outline.members(shown().h, a.item - shown().h.nodes, a.each, a.from, a.count),
    treePlace: (a) => {
      const { h } = shown();
      const open = [...new Set([...a.open, ...keysAround(h, a.item)])];
      outline.window(h, open, 0, 0);
      return { open, index: outline.indexOf(a.item) };
    },
    measures: () => measureNames(shown()),
    color: (a) => colorData(shown(), a.name),
    stages: async (a) => stageChanges(await shown().other(a.graph)),
    styles: (a) => applyRules(shown(), a.rules),
    extras: (a) => extras(shown(), a.kind),
    trace: (a) => trace(shown().h, a.item, a.direction),
    around: (a) => neighbours(shown().session, a.item, a.direction),
    nameOf: (a) => nameOf(shown(), a.item),
    itemsNamed: (a) => itemsOf(shown(), a.names),
    signature: (a) => signature(shown(), a.byId),
    matchWith: (a) => match(signature(shown(), a.other.sameGraph), a.other),
    markItems: (a) => {
      const { h } = shown();
      const mark = new Uint8Array(h.nodes + h.groups);
      mark.set(a.mark.subarray(0, h.nodes));
      markGroups(h, mark);
      return mark;
    },
    likeOf: (a) => likeOf(shown(), a.item, a.byId),
    itemLike: (a) => itemLike(shown(), a.key, a.byId),
    pathsOf: (a) => a.keys.map((k) => pathOfKey(shown(), k)),
    keysAt: (a) => keysAt(shown(), a.paths),
    kernelLines: () => kernelLines(shown()),
    memoryPlan: () => memoryPlan(shown()),
    rankLanes: () => rankLanes(shown()),
    icicle: (a) => icicle(shown(), a.name),
    repairs: () => repairs(shown()),
    json: () => toJson(shown()),
  };
}

async function groupDetails(s: Shown, item: number, pause: Pause): Promise<GroupDetails> {
  const { h, graph } = s;
  const g = item - h.nodes;
  const table = graph.groups.table;
  // The further calls of a module are described by its one row; the insides of nodes have none.
  const file = h.raw[g] >= 0 ? h.rows.file[h.raw[g]] : -1;
  const raw = table && file < table.rows ? file : -1;
  const text = (i: number): string => graph.strings.head(i, 4000);
  const path: { item: number; title: string }[] = [];
  for (let p = h.parent[item]; p > h.nodes; p = h.parent[p]) path.push({ item: p, title: groupTitle(h, p - h.nodes) });
  const attrs: (readonly [string, string])[] = [];
  if (table && raw >= 0) {
    const keys = table.list("attr_keys");
    const values = table.list("attr_values");
    for (let i = keys.offsets[raw]; i < keys.offsets[raw + 1]; i++)
      attrs.push([text(keys.values[i]), text(values.values[i])]);
  }
  const sole = soleOp(h, g);
  return {
    ...(await summarize(s, g, pause)),
    item,
    key: groupKey(h, g),
    path: path.reverse(),
    file: table && raw >= 0 ? text(table.ints("file")[raw]) : "",
    line: table && raw >= 0 ? table.ints("line")[raw] : 0,
    attrs,
    repeat: h.repeat[g],
    each: h.repeat[g] > 0 ? await runFigures(s, g) : [],
    pathName: raw >= 0 ? groupPath(graph, raw).replace(/\//g, ".") : "",
    inside: insideRow(h, g) >= 0 ? await new Details(s).node(item) : null,
    sole: sole >= 0 ? await new Details(s).node(sole) : null,
  };
}

async function sourceText(s: Shown, path: string): Promise<string | null> {
  const table = await s.recording.table("sources");
  if (!table) return null;
  const paths = table.ints("path");
  for (let r = 0; r < table.rows; r++) if (s.recording.strings.at(paths[r]) === path) return table.textAt("text", r);
  return null;
}

async function extras(s: Shown, kind: string): Promise<string[]> {
  const table = await s.recording.table("styles");
  if (!table) return [];
  const kinds = table.ints("kind");
  const out: string[] = [];
  for (let r = 0; r < table.rows; r++) if (s.recording.strings.at(kinds[r]) === kind) out.push(table.textAt("json", r));
  return out;
}

/** Groups go by their path, nodes by their key; a run of identical groups by the path of its first. */
function likeOf(s: Shown, item: number, byId: boolean): string {
  if (item < s.h.nodes) return keysOf(s, byId)[item] ?? "";
  return `/${pathOfKey(s, groupKey(s.h, item - s.h.nodes))}`;
}

function itemLike(s: Shown, key: string, byId: boolean): number {
  const node = keysOf(s, byId).indexOf(key);
  if (node >= 0 || !key.startsWith("/")) return node;
  const [found] = keysAt(s, [key.slice(1)]);
  if (found === 0) return -1;
  for (let g = 1; g < s.h.groups; g++) if (groupKey(s.h, g) === found) return s.h.nodes + g;
  return -1;
}

const rowMaps = new WeakMap<GroupColumns, Map<number, number>>();

function rowOfKey({ groups }: Graph, key: number): number {
  if (Math.abs(key) >= INSIDE) return -1;
  let map = rowMaps.get(groups);
  if (!map) rowMaps.set(groups, (map = new Map(Array.from(groups.key, (k, row) => [k, row]))));
  return map.get(Math.abs(key)) ?? -1;
}

function pathOfKey(s: Shown, key: number): string {
  const row = rowOfKey(s.graph, key);
  return row < 0 ? "" : (key < 0 ? "×" : "") + groupPath(s.graph, row);
}

function keysAt(s: Shown, paths: readonly string[]): number[] {
  const { h } = s;
  const known = new Map<string, number>();
  for (let g = 1; g < h.groups; g++) {
    const key = groupKey(h, g);
    const path = pathOfKey(s, key);
    if (path) known.set(path, key);
  }
  return paths.map((p) => known.get(p) ?? known.get(p.startsWith("×") ? p.slice(1) : `×${p}`) ?? 0);
}
