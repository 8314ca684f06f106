/** What a pane tells of every node that it shows, so that another pane finds the same ones (`matching.ts`). */

import { shortType } from "../base/format";
import { finish, mix } from "../base/hash";
import { nodeTitle, shortOp } from "../model/labels";
import type { Graph } from "../model/graph";
import { coldList } from "./cold";
import type { Shown } from "./shown";

/** What another pane needs to know of every node shown: who it is and what it is. */
export interface Signature {
  /** Same file and graph: nodes are told by id. */
  readonly sameGraph: boolean;
  readonly keys: readonly string[];
  /** Module path of each, with dots however the file writes it. */
  readonly paths: readonly string[];
  /** Op of each as it stands, and by its family of names: linear, addmm and Gemm are one. */
  readonly ops: readonly string[];
  readonly kinds: readonly string[];
  readonly shapes: readonly string[];
  readonly titles: readonly string[];
  /** Hash of the attributes. */
  readonly attrs: Int32Array;
  /** Producers of each: node numbers, -1 for those that are not shown. */
  readonly offsets: Int32Array;
  readonly inputs: Int32Array;
}

export function keysOf(s: Shown, byId: boolean): string[] {
  const { h, graph } = s;
  const out: string[] = [];
  const seen = new Map<string, number>();
  const paths = new Map<number, string>();
  for (let n = 0; n < h.nodes; n++) {
    const r = h.stage.row[n];
    if (r < 0) {
      out.push(`output ${-1 - r}`);
      continue;
    }
    if (byId) {
      out.push(`#${graph.id[r]}`);
      continue;
    }
    const name = graph.strings.head(graph.name[r], 400);
    const base = name || `${pathOf(graph, r, paths)}/${graph.strings.head(graph.op[r], 200)}`;
    // Nameless twins are told apart by their order.
    const nth = seen.get(base) ?? 0;
    seen.set(base, nth + 1);
    out.push(nth === 0 ? base : `${base} ${nth}`);
  }
  return out;
}

function pathOf(graph: Graph, row: number, known: Map<number, string>): string {
  const from = graph.groupsOf.offsets[row];
  if (from === graph.groupsOf.offsets[row + 1]) return "";
  const g = graph.groupsOf.values[from];
  let path = known.get(g);
  if (path === undefined) known.set(g, (path = groupPath(graph, g)));
  return path;
}

export function groupPath(graph: Graph, group: number): string {
  const parts: string[] = [];
  for (let r = group; r >= 0; r = graph.groups.parent[r]) parts.push(graph.strings.head(graph.groups.name[r], 120));
  return parts.reverse().join("/");
}

function hashText(text: string): number {
  let x = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) x = Math.imul(x ^ text.charCodeAt(i), 0x01000193);
  return x;
}

/** Names under which exporters know one and the same op. */
const SAME_OP: readonly (readonly [RegExp, string])[] = [
  [/^(linear|addmm|gemm|matmul|mm|bmm|baddbmm|batchmatmul|fusedmatmul\*)$/, "matmul"],
  [/^(convolution|conv)$/, "conv"],
  [/^(native)?(layernorm(alization)?|fusedlayernorm\*)$/, "layernorm"],
  [/^(native)?batchnorm(alization|legitnotraining)?$/, "batchnorm"],
  [/^(log)?softmax$/, "softmax"],
  [/^(view|unsafeview|reshape|flatten|unsqueeze|squeeze|expand)$/, "reshape"],
  [/^(permute|transpose|t)$/, "permute"],
  [/^(gather|embedding|take|indexselect|index)$/, "gather"],
  [/^(parameter|buffer|constant|initializer|getattr|variable)$/, "weight"],
  [/^(input|placeholder)$/, "input"],
  [/^(multiply|mul)$/, "mul"],
  [/^(divide|div)$/, "div"],
  [/^(subtract|sub)$/, "sub"],
  [/^(power|pow)$/, "pow"],
  [/^(concat|cat|concatenate)$/, "concat"],
  [/^(globalaveragepool|adaptiveavgpool)$/, "mean"],
];

/** An op without dialect, overload and the habits of exporters: "aten.max_pool2d.default" and "MaxPool" are one. */
export function sameOp(op: string): string {
  const plain = shortOp(op)
    .replace(/\.\w+$/, "")
    .toLowerCase()
    .replace(/_|\d+d$/g, "")
    .replace(/^reduce/, "");
  return SAME_OP.find(([names]) => names.test(plain))?.[1] ?? plain;
}

/** "layer1/layer1.0/conv" as some exporters write it and "layer1/0/conv" are one path. */
const samePath = (path: string): string => path.replace(/\//g, ".").replace(/(^|\.)([^.]+)\.\2(?=\.)/g, "$1$2");

export function signature(s: Shown, byId: boolean): Signature {
  const { h, graph } = s;
  const hashes = new Map<number, number>();
  const of = (text: number): number => {
    let v = hashes.get(text);
    if (v === undefined) hashes.set(text, (v = hashText(graph.strings.head(text, 2000))));
    return v;
  };
  const attrKeys = coldList(graph, "attr_keys");
  const attrValues = coldList(graph, "attr_values");
  const known = new Map<number, string>();
  const [paths, ops, kinds, shapes, titles]: string[][] = [[], [], [], [], []];
  const attrs = new Int32Array(h.nodes);
  for (let n = 0; n < h.nodes; n++) {
    const r = h.stage.row[n];
    titles.push(nodeTitle(h, n));
    paths.push(r < 0 ? "" : samePath(pathOf(graph, r, known)));
    ops.push(r < 0 ? "output" : graph.strings.head(graph.op[r], 200));
    kinds.push(sameOp(ops[n]));
    const at = r < 0 ? 0 : graph.outputs.offsets[r];
    shapes.push(
      r >= 0 && at < graph.outputs.offsets[r + 1] ? shortType(graph.strings.head(graph.outputs.values[at], 200)) : "",
    );
    let x = 7;
    for (let i = r < 0 ? 0 : attrKeys.offsets[r]; r >= 0 && i < attrKeys.offsets[r + 1]; i++)
      x = mix(mix(x, of(attrKeys.values[i])), of(attrValues.values[i]));
    for (let i = r < 0 ? 0 : at; r >= 0 && i < graph.outputs.offsets[r + 1]; i++)
      x = mix(x, of(graph.outputs.values[i]));
    attrs[n] = finish(x);
  }
  return {
    sameGraph: byId,
    keys: keysOf(s, byId),
    paths,
    ops,
    kinds,
    shapes,
    titles,
    attrs,
    offsets: h.stage.inputs.offsets.slice(),
    inputs: h.stage.inputs.values.slice(),
  };
}
