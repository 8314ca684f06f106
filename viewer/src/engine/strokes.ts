/** Which drawn edges belong to an item: its tensors, followed through every border they cross. */

import { Ints } from "../base/grow";
import type { LayoutSession } from "../layout/session";
import type { Problem } from "../layout/problem";

/** The tensor that drawn edge e of a group stands for (the first, when it bundles several). */
export function tensorOf(p: Problem, index: number): number {
  if (index < p.src.length) return p.tensor[index];
  if (index < p.src.length + p.inTensor.length) return p.inTensor[index - p.src.length];
  return p.outInner[index - p.src.length - p.inTensor.length];
}

export function findStrokes(session: LayoutSession, item: number): Int32Array {
  const { h } = session;
  const { stage } = h;
  const out = new Ints();
  const a = item < h.nodes ? h.pos[item] : h.start[item - h.nodes];
  const b = item < h.nodes ? a + 1 : h.end[item - h.nodes];
  const made = new Set<number>();
  const read = new Set<number>();
  for (let p = a; p < b; p++) {
    const n = h.order[p];
    for (let i = stage.inputs.offsets[n]; i < stage.inputs.offsets[n + 1]; i++) {
      const src = stage.inputs.values[i];
      if (src >= 0 && (h.pos[src] < a || h.pos[src] >= b)) read.add(stage.inputTensor[i]);
    }
    for (let i = stage.users.offsets[n]; i < stage.users.offsets[n + 1]; i++) {
      const user = stage.users.values[i];
      if (h.pos[user] >= a && h.pos[user] < b) continue;
      for (let t = stage.tensorStart[n]; t < stage.tensorStart[n + 1]; t++) made.add(t);
      break;
    }
  }
  // Groups that hold the item: there both its inputs and outputs pass. Elsewhere: where its outputs go,
  // and where its inputs come from.
  const above = new Set<number>();
  for (let p = h.parent[item] ?? -1; p >= 0; p = h.parent[p]) above.add(p - h.nodes);
  for (const g of session.flat ? [0] : session.visibleGroups(false)) {
    const shape = session.shape(g);
    if (!shape || shape.edgeSrc.length > 200000) continue;
    const { problem } = session.problem(g);
    const inside = !session.flat && !above.has(g) && item >= h.nodes && h.start[g] >= a && h.end[g] <= b;
    for (let e = 0; e < shape.edgeTensor.length; e++) {
      const index = shape.edgeTensor[e];
      const t = tensorOf(problem, index);
      const m = made.has(t);
      const r = read.has(t);
      if (!m && !r) continue;
      if (inside) continue;
      if (r && !m && !leadsTo(session, g, problem, shape.edgeDst[e], a, b)) continue;
      out.push(g);
      out.push(e);
    }
  }
  return out.take();
}

/** Whether an edge of a shared tensor is on the way to the item, rather than to another reader. */
function leadsTo(session: LayoutSession, group: number, problem: Problem, dst: number, a: number, b: number): boolean {
  const { h } = session;
  if (dst < 0) return h.start[group] < a || h.end[group] > b ? !(h.start[group] <= a && h.end[group] >= b) : false;
  const m = problem.members[dst];
  const from = m < h.nodes ? h.pos[m] : h.start[m - h.nodes];
  const to = m < h.nodes ? from + 1 : h.end[m - h.nodes];
  return from < b && to > a;
}
