/** Decides how the worker answers panels: every question is about what is shown right now. */

import type { Served } from "../base/rpc";
import { groupKey } from "../model/hierarchy";
import { groupTitle } from "../model/labels";
import type { GroupDetails, PanelApi } from "./api";
import { changesOf, stageChanges } from "./changes";
import { colorData } from "./colors";
import { Details } from "./details";
import { toJson } from "./json";
import { measureNames } from "./measures";
import { itemsOf, nameOf } from "./names";
import { keysAround, Outline } from "./outline";
import { applyRules } from "./rules";
import { hitOf, search } from "./search";
import type { Shown } from "./shown";
import { summarize } from "./summary";
import { neighbours, trace } from "./trace";

export function panelMethods(shown: () => Shown): Served<PanelApi> {
  const outline = new Outline();
  return {
    summary: () => summarize(shown(), 0),
    node: (a) => new Details(shown()).node(a.item),
    group: (a) => groupDetails(shown(), a.item),
    source: (a) => sourceText(shown(), a.path),
    find: async (a, call) => {
      const found = await search(shown(), a.text, a.limit);
      call.transfer([found.items.buffer as ArrayBuffer, found.lit.buffer as ArrayBuffer]);
      return found;
    },
    hits: (a) => Array.from(a.items, (i) => hitOf(shown(), i)),
    tree: (a) => outline.window(shown().h, a.open, a.from, a.count),
    treePlace: (a) => {
      const { h } = shown();
      const open = [...new Set([...a.open, ...keysAround(h, a.item)])];
      outline.window(h, open, 0, 0);
      return { open, index: outline.indexOf(a.item) };
    },
    measures: () => measureNames(shown()),
    color: (a) => colorData(shown(), a.name),
    changes: (a) => changesOf(shown().h, a.side),
    stages: async (a) => stageChanges(await shown().other(a.graph)),
    styles: (a) => applyRules(shown(), a.rules),
    extras: (a) => extras(shown(), a.kind),
    trace: (a) => trace(shown().h, a.item, a.direction),
    around: (a) => neighbours(shown().session, a.item, a.direction),
    nameOf: (a) => nameOf(shown(), a.item),
    itemsNamed: (a) => itemsOf(shown(), a.names),
    json: () => toJson(shown()),
  };
}

async function groupDetails(s: Shown, item: number): Promise<GroupDetails> {
  const { h, graph } = s;
  const g = item - h.nodes;
  const raw = h.raw[g];
  const table = graph.groups.table;
  const text = (i: number): string => graph.strings.head(i, 4000);
  const path: { item: number; title: string }[] = [];
  for (let p = h.parent[item]; p > h.nodes; p = h.parent[p]) path.push({ item: p, title: groupTitle(h, p - h.nodes) });
  const attrs: (readonly [string, string])[] = [];
  if (table && raw >= 0) {
    const keys = table.list("attr_keys");
    const values = table.list("attr_values");
    for (let i = keys.offsets[raw]; i < keys.offsets[raw + 1]; i++) attrs.push([text(keys.values[i]), text(values.values[i])]);
  }
  return {
    ...(await summarize(s, g)), item, key: groupKey(h, g), path: path.reverse(), file: table && raw >= 0 ? text(table.ints("file")[raw]) : "",
    line: table && raw >= 0 ? table.ints("line")[raw] : 0, attrs, repeat: h.repeat[g],
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
