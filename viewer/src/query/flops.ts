/** How much arithmetic a node is taken to do when nobody recorded it: from shapes, for the ops that matter. */

import { shortType } from "../base/format";
import type { Graph } from "../model/graph";

interface Shape {
  readonly dims: readonly number[];
  readonly elements: number;
}

const none: Shape = { dims: [], elements: -1 };

function parse(type: string): Shape {
  const m = /^\w+\[(.*)\]$/.exec(shortType(type));
  if (!m) return none;
  const dims = m[1] ? m[1].split(",").map(Number) : [];
  if (dims.some((d) => !Number.isInteger(d) || d < 0)) return none;
  return { dims, elements: dims.reduce((a, b) => a * b, 1) };
}

/** Shapes of a graph's outputs, parsed once for each distinct text. */
export class Shapes {
  private readonly known = new Map<number, Shape>();

  constructor(private readonly graph: Graph) {}

  of(text: number): Shape {
    let s = this.known.get(text);
    if (!s) this.known.set(text, (s = parse(this.graph.strings.head(text, 400))));
    return s;
  }

  output(row: number, port = 0): Shape {
    const { offsets, values } = this.graph.outputs;
    const i = offsets[row] + port;
    return i < offsets[row + 1] ? this.of(values[i]) : none;
  }
}

/**
 * Multiplications and additions of one node; -1 when its shapes do not tell. `producer` gives the row that
 * makes an operand. A product of size K costs 2 K, a reduction its input, anything else its output once.
 */
export function flopsOf(graph: Graph, row: number, shapes: Shapes, producer: (id: number) => number): number {
  const kind = graph.strings.at(graph.kind[row]);
  if (kind === "source" || kind === "shape" || kind === "move") return 0;
  const out = shapes.output(row);
  if (out.elements < 0) return -1;
  const operand = (k: number): Shape => {
    const i = graph.inputs.offsets[row] + k;
    if (i >= graph.inputs.offsets[row + 1]) return none;
    const r = producer(graph.inputs.values[i]);
    return r < 0 ? none : shapes.output(r, graph.ports.values[i] ?? 0);
  };
  if (kind === "matmul") {
    const a = operand(0);
    const b = operand(1);
    if (a.elements < 0 || a.dims.length === 0) return -1;
    if (/attention/i.test(graph.strings.head(graph.op[row], 60)) && b.dims.length >= 2) {
      // Two products over the keys: scores and the weighted sum.
      return 4 * out.elements * b.dims[b.dims.length - 2];
    }
    return 2 * out.elements * a.dims[a.dims.length - 1];
  }
  if (kind === "conv") {
    const w = operand(1);
    if (w.elements < 0 || w.dims.length < 3) return -1;
    return 2 * out.elements * (w.elements / Math.max(1, w.dims[0]));
  }
  if (kind === "reduction" || kind === "norm") {
    const a = operand(0);
    return a.elements < 0 ? out.elements : (kind === "norm" ? 5 : 1) * a.elements;
  }
  return kind === "elementwise" || kind === "quant" ? out.elements : -1;
}
