/** The models that tests look at: small ones by hand, large ones by rule. */

import { Graph } from "../../src/model/graph";
import { buildHierarchy, type Hierarchy } from "../../src/model/hierarchy";
import { Recording } from "../../src/model/recording";
import { selectStage } from "../../src/model/stage";
import { makeGlass, type GraphSpec, type NodeSpec } from "./glass";

/** A transformer: embedding, `layers` equal layers that all read one mask, a head. 13 nodes a layer. */
export function transformer(layers: number, heads = 0): GraphSpec {
  const nodes: NodeSpec[] = [];
  const add = (path: string, op: string, kind: string, inputs: number[], name = ""): number =>
    nodes.push({ op, kind, inputs, path, name }) - 1;
  const ids = add("", "Input", "source", [], "input_ids");
  const maskIn = add("", "Input", "source", [], "mask");
  const mask = add("mask", "Cast", "elementwise", [maskIn]);
  let x = add("embed", "Gather", "move", [ids]);
  for (let i = 0; i < layers; i++) {
    const L = `layers/${i}`;
    const h = add(`${L}/norm1`, "LayerNorm", "norm", [x]);
    const w = add(`${L}/attn/q`, "Parameter", "source", [], `layers.${i}.q.weight`);
    const q = add(`${L}/attn/q`, "Matmul", "matmul", [h, w]);
    const k = add(`${L}/attn/k`, "Matmul", "matmul", [h]);
    const v = add(`${L}/attn/v`, "Matmul", "matmul", [h]);
    let s = add(`${L}/attn`, "Matmul", "matmul", [q, k]);
    s = add(`${L}/attn`, "Add", "elementwise", [s, mask]);
    s = add(`${L}/attn`, "Softmax", "reduction", [s]);
    let c = add(`${L}/attn`, "Matmul", "matmul", [s, v]);
    if (heads > 0) {
      const parts: number[] = [];
      for (let g = 0; g < heads; g++) parts.push(add(`${L}/attn/heads/${g}`, "Slice", "shape", [c]));
      c = add(`${L}/attn`, "Concat", "shape", parts);
    }
    x = add(L, "Add", "elementwise", [x, c]);
    const n = add(`${L}/norm2`, "LayerNorm", "norm", [x]);
    const up = add(`${L}/mlp`, "Matmul", "matmul", [n]);
    const down = add(`${L}/mlp`, "Gelu", "elementwise", [up]);
    x = add(L, "Add", "elementwise", [x, down]);
  }
  const out = add("head", "Matmul", "matmul", [x]);
  return { nodes, inputs: [ids, maskIn], outputs: [[out, 0]] };
}

export async function load(spec: GraphSpec, stage = -1): Promise<Hierarchy> {
  const rec = await Recording.open(makeGlass(spec));
  const graph = await Graph.load(rec, 0);
  return buildHierarchy(selectStage(graph, stage < 0 ? graph.info.stages.length - 1 : stage), "module");
}

/** Numbers that look random and are the same in every run. */
export function random(seed: number): () => number {
  let s = seed >>> 0 || 1;
  return () => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    return (s >>> 0) / 2 ** 32;
  };
}
