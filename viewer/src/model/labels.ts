/** What a box is called: op or name, class or shape, module paths with their numbers. */

import { count, short, shortType } from "../base/format";
import type { Graph } from "./graph";
import { countIn } from "./counts";
import type { Hierarchy } from "./hierarchy";
import { ADDED, CHANGED, REMOVED } from "./stage";
import { isNumber } from "./twins";

/** An input of the whole model, as the stage or the op says. */
export function isModelInput(h: Hierarchy, node: number): boolean {
  const r = h.stage.row[node];
  return (
    r >= 0 &&
    (h.stage.isInput[node] === 1 || /^(input|placeholder)$/i.test(h.stage.graph.strings.head(h.stage.graph.op[r], 16)))
  );
}

/** A node that stands for a value rather than for work: shown by its own name. */
export function isSource(h: Hierarchy, node: number): boolean {
  const r = h.stage.row[node];
  return r < 0 || h.stage.graph.strings.at(h.stage.graph.kind[r]) === "source";
}

/** A name in one line: control characters have no width and no meaning in a drawing. */
const inLine = (name: string): string => name.replace(/[\u0000-\u001f\u007f]+/g, " ").trim();
const lastPart = (name: string): string => inLine(name.slice(name.lastIndexOf("/") + 1));

/** Ops that change nothing but the element type: small, one line, told by what they make. */
const CAST = /(?:^|\.)_?(?:cast|to_copy|convert_element_type)$/i;

interface OpWords {
  readonly op: string;
  readonly casts: boolean;
  readonly delegates: boolean;
}

const words = new WeakMap<Graph["strings"], Map<number, OpWords>>();

/** What an op is called: a million nodes have a few dozen ops, each is read once. */
function opWords(g: Graph, text: number): OpWords {
  let known = words.get(g.strings);
  if (!known) words.set(g.strings, (known = new Map()));
  let out = known.get(text);
  if (!out) {
    const op = inLine(shortOp(g.strings.head(text)));
    known.set(text, (out = { op, casts: CAST.test(op), delegates: /call_delegate$/.test(op) }));
  }
  return out;
}

const castType = (h: Hierarchy, node: number): string =>
  tensorType(h, h.stage.tensorStart[node], node).replace(/\[.*$/, "") || "?";

export function nodeTitle(h: Hierarchy, node: number): string {
  const g = h.stage.graph;
  const r = h.stage.row[node];
  if (r < 0) return h.stage.graph.info.stages[h.stage.stage].output_nodes.length > 1 ? `output ${-1 - r}` : "output";
  const { op, delegates, casts } = opWords(g, g.op[r]);
  if (delegates) return backendOf(g, r) || op;
  if (isSource(h, node) && g.name[r] > 0) return lastPart(g.strings.head(g.name[r])) || op;
  // A kernel goes by the modules and ops that it computes ("dense + gelu"), not by "FusedMatmul*".
  if (g.name[r] > 0 && (op.endsWith("*") || g.strings.head(g.name[r], 200).includes(" + ")))
    return g.strings.head(g.name[r], 120);
  if (casts) return `${op} → ${castType(h, node)}`;
  return op || lastPart(g.strings.head(g.name[r])) || `node ${g.id[r]}`;
}

/** The backend that a delegate call gives its part of the program to. */
function backendOf(g: Graph, row: number): string {
  const { table, row: at } = g.partOf(row);
  const keys = table.list("attr_keys");
  const values = table.list("attr_values");
  for (const wanted of ["backend", "delegate"]) {
    for (let i = keys.offsets[at]; i < keys.offsets[at + 1]; i++) {
      const text = g.strings.head(values.values[i], 60);
      if (g.strings.at(keys.values[i]) === wanted && !isNumber(text)) return text;
    }
  }
  return "";
}

/** A weight by its role, as it stands beside the op that reads it: "encoder.layer.0.query.weight" -> "weight". */
export function pillTitle(h: Hierarchy, node: number): string {
  const title = nodeTitle(h, node);
  const last = title.slice(title.lastIndexOf(".") + 1);
  return (
    /(?:^|_)(weight|bias|running_mean|running_var|num_batches_tracked|gamma|beta|scale|zero_point)$/.exec(last)?.[1] ??
    last
  );
}

/** "aten.convolution.default" -> "convolution": the dialect is the same for the whole graph. */
export function shortOp(op: string): string {
  return op
    .replace(
      /^(?:torch\.ops\.)?(?:aten|prims|prim|onnx|tfl|quantized_decomposed|glasshouse|stablehlo|mhlo|chlo|tosa|linalg|arith)(?:\.|::)/,
      "",
    )
    .replace(/\.(?:default|Tensor|Scalar|int)$/, "");
}

/** The type of an output, short. */
export function tensorType(h: Hierarchy, tensor: number, node: number): string {
  const g = h.stage.graph;
  const r = h.stage.row[node];
  if (r < 0) return "";
  const k = g.outputs.offsets[r] + tensor - h.stage.tensorStart[node];
  return k < g.outputs.offsets[r + 1] ? printedType(g, g.outputs.values[k]) : "";
}

const printed = new WeakMap<Graph, Map<number, string>>();

/** Types repeat, a hundred thousand nodes have a few dozen: each is shortened once. */
function printedType(g: Graph, text: number): string {
  let known = printed.get(g);
  if (!known) printed.set(g, (known = new Map()));
  let out = known.get(text);
  if (out === undefined) known.set(text, (out = shortType(g.strings.head(text, 200))));
  return out;
}

export function nodeSubtitle(h: Hierarchy, node: number): string {
  const r = h.stage.row[node];
  if (r >= 0 && opWords(h.stage.graph, h.stage.graph.op[r]).casts) return "";
  const t = h.stage.tensorStart[node];
  const n = h.stage.tensorStart[node + 1] - t;
  if (n === 0) {
    const src = h.stage.inputs.values[h.stage.inputs.offsets[node]];
    return src >= 0 ? tensorType(h, h.stage.inputTensor[h.stage.inputs.offsets[node]], src) : "";
  }
  const type = tensorType(h, t, node);
  return n > 1 && type ? `${type} +${n - 1}` : type;
}

/** The name that a tensor goes by where its edge is not drawn. */
export function portName(h: Hierarchy, node: number): string {
  const g = h.stage.graph;
  const r = h.stage.row[node];
  if (r < 0) return "output";
  const name = lastPart(g.strings.head(g.name[r]));
  return name || nodeTitle(h, node);
}

const rawName = (h: Hierarchy, row: number): string =>
  inLine(h.stage.graph.strings.head(h.stage.graph.groups.name[h.rows.file[row]], 80));

/** The module path's own part: "attention", or "layer.3" where the name alone would be a number. */
export function groupTitle(h: Hierarchy, group: number): string {
  if (group === 0) return h.stage.graph.info.name || "model";
  const r = h.raw[group];
  if (r === -2) return `${runStem(h, group)} × ${count(h.repeat[group])}`;
  const parts: string[] = [];
  for (let i = h.absorbed.offsets[group]; i < h.absorbed.offsets[group + 1]; i++)
    parts.push(rawName(h, h.absorbed.values[i]));
  parts.push(rawName(h, r));
  if (isNumber(parts[0])) {
    const above =
      h.rows.parent[
        h.absorbed.offsets[group] < h.absorbed.offsets[group + 1] ? h.absorbed.values[h.absorbed.offsets[group]] : r
      ];
    if (above >= 0) parts.unshift(rawName(h, above));
  }
  const call = h.rows.call[r] > 0 ? ` (${h.rows.call[r]})` : "";
  const title = (parts.join(".") || "group") + call;
  return h.repeat[group] > 0 ? `${title} × ${count(h.repeat[group])}` : title;
}

/** What the members of a run share: "layer1", "layer2" -> "layer"; numbers take their parent's name. */
function runStem(h: Hierarchy, group: number): string {
  const first = h.members.values[h.members.offsets[group]] - h.nodes;
  const r = h.raw[first];
  if (r < 0) return "group";
  const name = rawName(h, r);
  if (isNumber(name)) {
    const above = h.rows.parent[r];
    return above >= 0
      ? rawName(h, above)
      : h.stage.graph.strings.head(h.stage.graph.groups.cls[h.rows.file[r]], 60) || "group";
  }
  return name.replace(/[._-]?\d+$/, "") || name;
}

export function groupClass(h: Hierarchy, group: number): string {
  const g = h.stage.graph;
  let of = group;
  if (h.repeat[group] > 0) of = h.members.values[h.members.offsets[group]] - h.nodes;
  const r = h.raw[of];
  return r >= 0 ? g.strings.head(g.groups.cls[h.rows.file[r]], 80) : "";
}

/** The only working node of a group, or -1. */
export function soleOp(h: Hierarchy, group: number): number {
  if (countIn(h, group, "ops") !== 1 || h.end[group] - h.start[group] > 64) return -1;
  for (let p = h.start[group]; p < h.end[group]; p++) if (h.worksBefore[p + 1] > h.worksBefore[p]) return h.order[p];
  return -1;
}

/** The outermost group that holds a node and no other work: such a module is that op. -1 where there is none. */
export function soleHome(h: Hierarchy, node: number): number {
  let out = -1;
  for (let p = h.parent[node]; p > h.nodes && soleOp(h, p - h.nodes) === node; p = h.parent[p]) out = p;
  return out;
}

const changes = new WeakMap<Hierarchy, readonly Int32Array[]>();

/** How many nodes of a group the stage's pass added, removed and changed; all 0 unless a diff is shown. */
export function groupChanges(h: Hierarchy, group: number): readonly [added: number, removed: number, changed: number] {
  if (!h.stage.diff) return [0, 0, 0];
  let before = changes.get(h);
  if (!before) {
    // Nodes of each fate before each place in depth-first order.
    const counts = [ADDED, REMOVED, CHANGED].map((fate) => {
      const sum = new Int32Array(h.nodes + 1);
      for (let p = 0; p < h.nodes; p++) sum[p + 1] = sum[p] + (h.stage.change[h.order[p]] === fate ? 1 : 0);
      return sum;
    });
    changes.set(h, (before = counts));
  }
  const [a, b] = [h.start[group], h.end[group]];
  return [before[0][b] - before[0][a], before[1][b] - before[1][a], before[2][b] - before[2][a]];
}

/** "Linear + gelu" for the kernel "dense + gelu" in the module dense: the title above has the name already. */
function soleSubtitle(h: Hierarchy, group: number, cls: string, op: string): string {
  if (!cls || cls === op) return op;
  const words = op.split(" + ");
  const own = words.indexOf(groupTitle(h, group).split(".").at(-1) ?? "");
  if (own < 0) return `${cls} · ${op}`;
  words[own] = cls;
  return words.join(" + ");
}

/** Class and number of ops (for a module around one op, that op); in a diff, what happened inside. */
export function groupSubtitle(h: Hierarchy, group: number): string {
  const [added, removed, changed] = groupChanges(h, group);
  if (added + removed + changed > 0) {
    return [added && `+${short(added)}`, removed && `−${short(removed)}`, changed && `~${short(changed)}`]
      .filter(Boolean)
      .join("  ");
  }
  const n = countIn(h, group, "ops");
  const sole = soleOp(h, group);
  const cls = groupClass(h, group);
  if (sole >= 0) return soleSubtitle(h, group, cls, nodeTitle(h, sole));
  const values = h.end[group] - h.start[group];
  const figure =
    n === 0 ? `${short(values)} ${values === 1 ? "value" : "values"}` : `${short(n)} ${n === 1 ? "op" : "ops"}`;
  return cls ? `${cls} · ${figure}` : figure;
}
