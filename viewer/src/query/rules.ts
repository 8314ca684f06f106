/** What style rules mean: ours (a query) and Model Explorer's, one list, the first that fits a box wins. */

import { parseColor } from "../base/color";
import { groupClass, groupTitle, nodeTitle, soleOp } from "../model/labels";
import { coldList } from "./cold";
import { makeRegex, parseQuery, QueryError } from "./language";
import { find, Matcher, type Flags } from "./match";
import { byItem, measure } from "./measures";
import type { Shown } from "./shown";

/** As in a file; fields that are not known are kept for export. */
export interface StyleRule {
  readonly queries: readonly Readonly<Record<string, unknown>>[];
  readonly styles: Readonly<Record<string, unknown>>;
  readonly nodeType?: string;
  readonly enabled?: boolean;
  readonly [other: string]: unknown;
}

export interface StyleResult {
  readonly fill: Uint32Array;
  readonly border: Uint32Array;
  readonly text: Uint32Array;
  /** How many boxes each rule fits; -1 with a message in `problems` when it cannot be read. */
  readonly counts: readonly number[];
  readonly problems: readonly string[];
}

export function styleColor(rule: StyleRule, id: string): string {
  const s = rule.styles[id];
  if (typeof s === "string") return s;
  if (typeof s === "object" && s !== null && "value" in s) return String((s as { value: unknown }).value);
  return "";
}

export async function applyRules(s: Shown, rules: readonly StyleRule[]): Promise<StyleResult> {
  const items = s.h.nodes + s.h.groups;
  const fill = new Uint32Array(items);
  const border = new Uint32Array(items);
  const text = new Uint32Array(items);
  const taken = new Uint8Array(items);
  const counts: number[] = [];
  const problems: string[] = [];
  for (const rule of rules) {
    let flags: Flags;
    try {
      flags = await fits(s, rule);
      problems.push("");
    } catch (e) {
      if (!(e instanceof QueryError)) throw e;
      counts.push(-1);
      problems.push(e.message);
      continue;
    }
    const f = parseColor(styleColor(rule, "node_bg_color")) ?? 0;
    const b = parseColor(styleColor(rule, "node_border_color")) ?? 0;
    const t = parseColor(styleColor(rule, "node_text_color")) ?? 0;
    let count = 0;
    for (let i = 0; i < items; i++) {
      if (!flags[i]) continue;
      count++;
      if (taken[i] || rule.enabled === false) continue;
      taken[i] = 1;
      fill[i] = f;
      border[i] = b;
      text[i] = t;
    }
    counts.push(count);
  }
  return { fill, border, text, counts, problems };
}

async function fits(s: Shown, rule: StyleRule): Promise<Flags> {
  const { nodes, groups } = s.h;
  const all = new Uint8Array(nodes + groups).fill(1);
  all[nodes] = 0;
  if (rule.nodeType === "op_nodes") for (let g = 0; g < groups; g++) all[nodes + g] = soleOp(s.h, g) >= 0 ? 1 : 0;
  else if (rule.nodeType === "layer_nodes") all.fill(0, 0, nodes);
  for (const q of rule.queries) {
    const one = await queryFlags(s, q);
    for (let i = 0; i < all.length; i++) all[i] &= one[i];
  }
  if (rule.queries.length === 0) all.fill(0);
  return all;
}

async function queryFlags(s: Shown, q: Readonly<Record<string, unknown>>): Promise<Flags> {
  const m = new Matcher(s);
  const { h } = s;
  switch (q.type) {
    case "query":
      return find(s, parseQuery(String(q.query ?? "")));
    case "node_type": {
      const out = m.empty();
      if (q.nodeType !== "layer_nodes") out.fill(1, 0, h.nodes);
      if (q.nodeType !== "op_nodes") out.fill(1, h.nodes);
      return out;
    }
    case "regex":
      return regexFlags(
        s,
        makeRegex(String(q.queryRegex ?? ""), "i"),
        Array.isArray(q.matchTypes) ? q.matchTypes.map(String) : ["title"],
      );
    case "attr_value_range": {
      const name = String(q.attrName ?? "");
      const min = typeof q.min === "number" ? q.min : -Infinity;
      const max = typeof q.max === "number" ? q.max : Infinity;
      const out = m.empty();
      const known = await measure(s, name.toLowerCase());
      if (known) {
        const v = byItem(h, known);
        for (let i = 0; i < out.length; i++) if (v[i] >= min && v[i] <= max) out[i] = 1;
      }
      const keys = coldList(s.graph, "attr_keys");
      const values = coldList(s.graph, "attr_values");
      for (let n = 0; n < h.nodes; n++) {
        const r = h.stage.row[n];
        if (r < 0) continue;
        for (let i = keys.offsets[r]; i < keys.offsets[r + 1]; i++) {
          if (s.graph.strings.at(keys.values[i]) !== name) continue;
          const v = Number(s.graph.strings.head(values.values[i], 60));
          if (v >= min && v <= max) out[n] = 1;
        }
      }
      return out;
    }
    default:
      throw new QueryError(`A rule asks for "${String(q.type)}", which is not known.`);
  }
}

/** Model Explorer's match types: title, attr list, input and output metadata. */
function regexFlags(s: Shown, regex: RegExp, where: readonly string[]): Flags {
  const { h, graph } = s;
  const out = new Matcher(s).empty();
  const known = new Map<number, boolean>();
  const test = (text: number): boolean => {
    let k = known.get(text);
    if (k === undefined) known.set(text, (k = text > 0 && regex.test(graph.strings.head(text, 20000))));
    return k;
  };
  const lists = [
    ...(where.includes("list") || where.includes("attr") ? ["attr_keys", "attr_values"] : []),
    ...(where.includes("output") ? ["output_names", "outputs"] : []),
    ...(where.includes("input") ? ["input_names"] : []),
  ].map((c) => (c === "outputs" ? graph.outputs : coldList(graph, c)));
  const title = where.includes("title");
  for (let n = 0; n < h.nodes; n++) {
    const r = h.stage.row[n];
    if (r < 0) continue;
    let hit = title && (test(graph.op[r]) || test(graph.name[r]) || regex.test(nodeTitle(h, n)));
    for (const list of lists)
      for (let i = list.offsets[r]; !hit && i < list.offsets[r + 1]; i++) hit = test(list.values[i]);
    if (hit) out[n] = 1;
  }
  if (title)
    for (let g = 1; g < h.groups; g++)
      if (regex.test(groupTitle(h, g)) || regex.test(groupClass(h, g))) out[h.nodes + g] = 1;
  return out;
}
