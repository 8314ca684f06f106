/** A part of a flow as a flow of its own, with signs where edges of the whole leave it. */

import { Floats, Ints } from "../base/grow";
import type { Flow } from "./flow";

export interface SubFlow {
  readonly blocks: Ints; // original block, or -1 for a connector's sign
  readonly signs: Ints; // the block that a sign names, -1 for blocks
  readonly kind: Ints;
  readonly src: Ints;
  readonly dst: Ints;
  readonly leave: Floats;
  readonly enter: Floats;
  readonly net: Ints;
}

export const newPart = (): SubFlow => ({
  blocks: new Ints(),
  signs: new Ints(),
  kind: new Ints(),
  src: new Ints(),
  dst: new Ints(),
  leave: new Floats(),
  enter: new Floats(),
  net: new Ints(),
});

/** Adds an edge to a part and says which it is there. */
export function connect(p: SubFlow, src: number, dst: number, net: number, leave: number, enter: number): number {
  p.src.push(src);
  p.dst.push(dst);
  p.leave.push(leave);
  p.enter.push(enter);
  p.net.push(net);
  return p.src.length - 1;
}

export function toFlow(flow: Flow, s: SubFlow): Flow {
  const n = s.blocks.length;
  // A sign is as large as the words for the block that it names.
  const pick = (a: Float32Array, sign: (v: number) => number): Float32Array => {
    const out = new Float32Array(n);
    for (let i = 0; i < n; i++) out[i] = s.blocks.data[i] >= 0 ? a[s.blocks.data[i]] : sign(s.signs.data[i]);
    return out;
  };
  const wide = (v: number): number => flow.signW[v];
  const high = (v: number): number => flow.signH[v];
  return {
    n,
    kind: Uint8Array.from(s.kind.take()),
    w: pick(flow.w, wide),
    h: pick(flow.h, high),
    axis: pick(flow.axis, (v) => wide(v) / 2),
    top: pick(flow.top, () => 0),
    bottom: pick(flow.bottom, high),
    stem: pick(flow.stem, () => 0),
    signW: pick(flow.signW, () => 0),
    signH: pick(flow.signH, () => 0),
    m: s.src.length,
    src: s.src.take(),
    dst: s.dst.take(),
    leave: s.leave.take(),
    enter: s.enter.take(),
    net: s.net.take(),
    portAt: flow.portAt && pick(flow.portAt, () => NaN),
    careful: flow.careful,
    loose: flow.loose,
  };
}
