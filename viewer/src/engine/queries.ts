/** Decides the answers about items: what one is, what it holds, what it hangs together with, totals. */

import { Ints } from "../base/grow";
import { typeSize } from "../base/format";
import { groupKey, worksIn, type Hierarchy } from "../model/hierarchy";
import { groupClass, groupSubtitle, groupTitle, isModelInput, isSource, nodeSubtitle, nodeTitle, tensorType } from "../model/labels";
import type { Description, ItemRef, OutlineRow, TensorRef, Totals } from "./api";

export function itemRef(h: Hierarchy, item: number): ItemRef {
  return item < h.nodes
    ? { item, title: nodeTitle(h, item), sub: nodeSubtitle(h, item), group: false }
    : { item, title: groupTitle(h, item - h.nodes), sub: groupSubtitle(h, item - h.nodes), group: true };
}

/** Items from the outermost group to the item itself. */
export function pathTo(h: Hierarchy, item: number): ItemRef[] {
  const out: ItemRef[] = [];
  for (let p = item; p >= 0 && p !== h.nodes; p = h.parent[p]) out.push(itemRef(h, p));
  return out.reverse();
}

const MAX_REFS = 200;

export function describe(h: Hierarchy, item: number): Description {
  return item < h.nodes ? describeNode(h, item) : describeGroup(h, item - h.nodes);
}

function describeNode(h: Hierarchy, node: number): Description {
  const { stage } = h;
  const { graph } = stage;
  const { strings } = graph;
  const r = stage.row[node];
  const inputs: TensorRef[] = [];
  const first = stage.inputs.offsets[node];
  const cold = r < 0 ? null : graph.partOf(r);
  const texts = (column: string): string[] => {
    if (!cold) return [];
    const list = cold.table.list(column);
    const out: string[] = [];
    for (let i = list.offsets[cold.row]; i < list.offsets[cold.row + 1]; i++) out.push(strings.at(list.values[i]));
    return out;
  };
  const numbers = (column: string): number[] => {
    if (!cold) return [];
    const list = cold.table.list(column);
    return Array.from(list.values.subarray(list.offsets[cold.row], list.offsets[cold.row + 1]));
  };
  const text = (column: string): string => (cold ? strings.at(cold.table.ints(column)[cold.row]) : "");
  const inputNames = texts("input_names");
  for (let i = first; i < stage.inputs.offsets[node + 1] && inputs.length < MAX_REFS; i++) {
    const src = stage.inputs.values[i];
    inputs.push({
      name: inputNames[i - first] ?? "", type: src < 0 ? "" : tensorType(h, stage.inputTensor[i], src),
      port: src < 0 ? 0 : stage.inputTensor[i] - stage.tensorStart[src], ends: src < 0 ? [] : [itemRef(h, src)], more: 0,
    });
  }
  const outputs: TensorRef[] = [];
  const outputNames = texts("output_names");
  for (let t = stage.tensorStart[node]; t < stage.tensorStart[node + 1]; t++) {
    const ends: ItemRef[] = [];
    let more = 0;
    for (let k = stage.users.offsets[node]; k < stage.users.offsets[node + 1]; k++) {
      const user = stage.users.values[k];
      let reads = false;
      for (let i = stage.inputs.offsets[user]; i < stage.inputs.offsets[user + 1]; i++) if (stage.inputTensor[i] === t) reads = true;
      if (!reads) continue;
      if (ends.length < MAX_REFS) ends.push(itemRef(h, user));
      else more++;
    }
    const port = t - stage.tensorStart[node];
    outputs.push({ name: outputNames[port] ?? "", type: tensorType(h, t, node), port, ends, more });
  }
  const keys = texts("attr_keys");
  const values = texts("attr_values");
  return {
    ...itemRef(h, node), path: pathTo(h, node), id: r < 0 ? -1 : graph.id[r], name: r < 0 ? "output" : strings.at(graph.name[r]),
    op: r < 0 ? "" : strings.at(graph.op[r]), kind: r < 0 ? "source" : strings.at(graph.kind[r]), cls: "",
    attrs: keys.map((k, i) => [k, values[i] ?? ""]), inputs, outputs, file: text("file"), line: cold ? cold.table.ints("line")[cold.row] : 0,
    pass: text("pass_name"), rule: text("rule"), replaces: numbers("replaces"), gradOf: cold ? cold.table.ints("grad_of", -1)[cold.row] : -1,
    frames: texts("frames"), bodies: numbers("bodies"), born: r < 0 ? 0 : graph.born[r], died: r < 0 ? -1 : graph.died[r], ops: 1,
    repeat: 0, opCounts: [], key: 0,
  };
}

function describeGroup(h: Hierarchy, group: number): Description {
  const { stage } = h;
  const { graph } = stage;
  const { strings } = graph;
  const a = h.start[group];
  const b = h.end[group];
  const counts = new Map<number, number>();
  const ins = new Map<number, TensorRef>();
  const outs = new Map<number, TensorRef>();
  for (let p = a; p < b; p++) {
    const n = h.order[p];
    const r = stage.row[n];
    if (r >= 0 && !isSource(h, n)) counts.set(graph.op[r], (counts.get(graph.op[r]) ?? 0) + 1);
    for (let i = stage.inputs.offsets[n]; i < stage.inputs.offsets[n + 1]; i++) {
      const src = stage.inputs.values[i];
      const t = stage.inputTensor[i];
      if (src < 0 || (h.pos[src] >= a && h.pos[src] < b) || ins.has(t) || ins.size >= MAX_REFS) continue;
      ins.set(t, { name: "", type: tensorType(h, t, src), port: t - stage.tensorStart[src], ends: [itemRef(h, src)], more: 0 });
    }
    for (let k = stage.users.offsets[n]; k < stage.users.offsets[n + 1]; k++) {
      const user = stage.users.values[k];
      if (h.pos[user] >= a && h.pos[user] < b) continue;
      for (let i = stage.inputs.offsets[user]; i < stage.inputs.offsets[user + 1]; i++) {
        if (stage.inputs.values[i] !== n) continue;
        const t = stage.inputTensor[i];
        const known = outs.get(t);
        if (known) {
          if (known.ends.length < 20) (known.ends as ItemRef[]).push(itemRef(h, user));
        } else if (outs.size < MAX_REFS) {
          outs.set(t, { name: nodeTitle(h, n), type: tensorType(h, t, n), port: t - stage.tensorStart[n], ends: [itemRef(h, user)], more: 0 });
        }
      }
    }
  }
  const raw = h.raw[group] >= 0 ? h.rows.file[h.raw[group]] : -1;
  const table = graph.groups.table;
  const attrs: [string, string][] = [];
  if (raw >= 0 && table) {
    const keys = table.list("attr_keys");
    const values = table.list("attr_values");
    for (let i = keys.offsets[raw]; i < keys.offsets[raw + 1]; i++) attrs.push([strings.at(keys.values[i]), strings.at(values.values[i])]);
  }
  return {
    ...itemRef(h, h.nodes + group), path: pathTo(h, h.nodes + group), id: -1, name: raw >= 0 ? strings.at(graph.groups.name[raw]) : groupTitle(h, group),
    op: "", kind: "", cls: groupClass(h, group), attrs, inputs: [...ins.values()], outputs: [...outs.values()],
    file: raw >= 0 && table ? strings.at(table.ints("file")[raw]) : "", line: raw >= 0 && table ? table.ints("line")[raw] : 0,
    pass: "", rule: "", replaces: [], gradOf: -1, frames: [], bodies: [], born: 0, died: -1, ops: worksIn(h, group), repeat: h.repeat[group],
    opCounts: rank(counts, (s) => strings.at(s)), key: groupKey(h, group),
  };
}

function rank(counts: ReadonlyMap<number, number>, name: (s: number) => string): [string, number][] {
  return [...counts].sort((p, q) => q[1] - p[1] || p[0] - q[0]).slice(0, 40).map(([s, n]) => [name(s), n]);
}

/** Members of a group, for the outline: groups and nodes in order of use. */
export function outline(h: Hierarchy, item: number, from: number, limit: number): { rows: OutlineRow[]; total: number } {
  const g = item < 0 ? 0 : item - h.nodes;
  const a = h.members.offsets[g];
  const total = h.members.offsets[g + 1] - a;
  const rows: OutlineRow[] = [];
  const all = Math.max(1, h.worksBefore[h.nodes]);
  for (let i = from; i < Math.min(total, from + limit); i++) {
    const m = h.members.values[a + i];
    const ops = m < h.nodes ? (isSource(h, m) ? 0 : 1) : worksIn(h, m - h.nodes);
    rows.push({
      ...itemRef(h, m), ops, share: ops / all, children: m < h.nodes ? 0 : h.members.offsets[m - h.nodes + 1] - h.members.offsets[m - h.nodes],
      source: m < h.nodes && isSource(h, m), key: m < h.nodes ? 0 : groupKey(h, m - h.nodes),
    });
  }
  return { rows, total };
}

export function totals(h: Hierarchy): Totals {
  const { stage } = h;
  const { graph } = stage;
  const counts = new Map<number, number>();
  let parameters = 0;
  let parameterBytes = 0;
  let unsized = 0;
  const sizes = new Map<number, { elements: number; bytes: number }>();
  const big: { bytes: number; node: number; tensor: number }[] = [];
  const inputs: ItemRef[] = [];
  const outputs: ItemRef[] = [];
  let least = 0;
  for (let n = 0; n < h.nodes; n++) {
    const r = stage.row[n];
    if (r < 0) {
      if (outputs.length < MAX_REFS) outputs.push(itemRef(h, n));
      continue;
    }
    const source = isSource(h, n);
    if (!source) counts.set(graph.op[r], (counts.get(graph.op[r]) ?? 0) + 1);
    const input = isModelInput(h, n);
    if (input && inputs.length < MAX_REFS) inputs.push(itemRef(h, n));
    for (let k = graph.outputs.offsets[r]; k < graph.outputs.offsets[r + 1]; k++) {
      const type = graph.outputs.values[k];
      let size = sizes.get(type);
      if (!size) sizes.set(type, (size = typeSize(graph.strings.head(type, 400))));
      if (source && !input) {
        if (size.elements < 0) unsized++;
        else {
          parameters += size.elements;
          parameterBytes += Math.max(0, size.bytes);
        }
      } else if (size.bytes > least || big.length < 8) {
        big.push({ bytes: size.bytes, node: n, tensor: stage.tensorStart[n] + k - graph.outputs.offsets[r] });
        big.sort((p, q) => q.bytes - p.bytes || p.node - q.node);
        if (big.length > 8) big.pop();
        least = big.length === 8 ? big[7].bytes : 0;
      }
    }
  }
  return {
    nodes: h.nodes, ops: h.worksBefore[h.nodes], edges: stage.edges, groups: h.groups - 1, parameters, parameterBytes, unsized,
    opCounts: rank(counts, (s) => graph.strings.at(s)), inputs, outputs,
    largest: big.filter((b) => b.bytes > 0).map((b) => ({ ...itemRef(h, b.node), bytes: b.bytes, type: tensorType(h, b.tensor, b.node) })),
  };
}

/** Nodes that feed a node (or a group), or that it feeds: nearest first, as items. */
export function neighbours(h: Hierarchy, item: number, forward: boolean): Int32Array {
  const { stage } = h;
  const a = item < h.nodes ? h.pos[item] : h.start[item - h.nodes];
  const b = item < h.nodes ? a + 1 : h.end[item - h.nodes];
  const seen = new Set<number>();
  for (let p = a; p < b; p++) {
    const n = h.order[p];
    const list = forward ? stage.users : stage.inputs;
    for (let i = list.offsets[n]; i < list.offsets[n + 1]; i++) {
      const m = list.values[i];
      if (m >= 0 && (h.pos[m] < a || h.pos[m] >= b)) seen.add(m);
    }
  }
  return Int32Array.from(seen);
}

/** 1 for everything up or down the flow from an item, with the groups that hold it. */
export function reach(h: Hierarchy, item: number, forward: boolean, backward: boolean, steps: number): Uint8Array {
  const { stage } = h;
  const lit = new Uint8Array(h.nodes + h.groups);
  const a = item < h.nodes ? h.pos[item] : h.start[item - h.nodes];
  const b = item < h.nodes ? a + 1 : h.end[item - h.nodes];
  for (const list of [forward ? stage.users : null, backward ? stage.inputs : null]) {
    if (!list) continue;
    const seen = new Uint8Array(h.nodes);
    let now = new Ints();
    for (let p = a; p < b; p++) {
      seen[h.order[p]] = 1;
      now.push(h.order[p]);
    }
    for (let step = 0; step < steps && now.length > 0; step++) {
      const next = new Ints();
      for (let k = 0; k < now.length; k++) {
        const n = now.data[k];
        for (let i = list.offsets[n]; i < list.offsets[n + 1]; i++) {
          const m = list.values[i];
          if (m < 0 || seen[m]) continue;
          seen[m] = 1;
          next.push(m);
        }
      }
      now = next;
    }
    for (let n = 0; n < h.nodes; n++) if (seen[n]) lit[n] = 1;
  }
  lightGroups(h, lit);
  return lit;
}

/** Marks each group that holds a marked node. */
export function lightGroups(h: Hierarchy, lit: Uint8Array): void {
  for (let n = 0; n < h.nodes; n++) {
    if (!lit[n]) continue;
    for (let p = h.parent[n]; p >= 0 && !lit[p]; p = h.parent[p]) lit[p] = 1;
  }
}
