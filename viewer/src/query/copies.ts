/** What one drawn box stands for: a box in an open "layer × 12" is drawn once for all twelve, and its figure is that of all of them. */

import { firstTwin } from "../layout/problem";
import type { LayoutSession } from "../layout/session";
import type { Hierarchy } from "../model/hierarchy";
import { asSums, byItem, type Measured } from "./measures";

/** Places in depth-first order, from and to, of every copy that an item is drawn for; its own first. */
export function copiesOf(session: LayoutSession, item: number): (readonly [number, number])[] {
  const { h } = session;
  const g = item - h.nodes;
  let out: (readonly [number, number])[] = [item < h.nodes ? [h.pos[item], h.pos[item] + 1] : [h.start[g], h.end[g]]];
  if (session.flat) return out;
  for (let p = h.parent[item]; p > h.nodes; p = h.parent[p]) {
    const run = p - h.nodes;
    if (!session.isExemplar(run)) continue;
    const first = firstTwin(h, run);
    const within = out[0][0] >= h.start[first] && out[0][1] <= h.end[first];
    if (!within) break;
    const own = out;
    out = members(h, run).flatMap((m) =>
      own.map(([a, b]) => [a - h.start[first] + h.start[m], b - h.start[first] + h.start[m]] as const),
    );
  }
  return out;
}

/** Groups that a run of identical groups holds. */
export function members(h: Hierarchy, run: number): number[] {
  return Array.from(h.members.values.subarray(h.members.offsets[run], h.members.offsets[run + 1]), (m) => m - h.nodes);
}

/** Boxes that are drawn now: nodes and folded groups of all open groups. */
export function drawnBoxes(session: LayoutSession): Int32Array {
  const { h } = session;
  if (session.flat) return Int32Array.from({ length: h.nodes }, (_, n) => n);
  const out: number[] = [];
  for (const g of session.visibleGroups(false)) {
    for (const item of session.membersOf(g)) if (item < h.nodes || session.fold[item - h.nodes] === 0) out.push(item);
  }
  return Int32Array.from(out);
}

export interface Drawn {
  /** By item, over all copies that it is drawn for. */
  readonly value: Float64Array;
  readonly copies: ReadonlyMap<number, number>;
  readonly boxes: Int32Array;
}

/** A measure as it is drawn. */
export function drawnValues(session: LayoutSession, m: Measured): Drawn {
  const mean = asSums(m);
  if (mean) {
    const [above, below] = mean.map((part) => drawnValues(session, part));
    return { ...above, value: above.value.map((v, i) => v / below.value[i]) };
  }
  const { h } = session;
  const value = byItem(h, m);
  const boxes = drawnBoxes(session);
  const copies = new Map<number, number>();
  const open = session.flat ? [] : session.visibleGroups(false).filter((g) => g > 0);
  if (session.flat || !open.some((g) => session.isExemplar(g))) return { value, copies, boxes };
  const sum = new Float64Array(h.nodes + 1);
  for (let p = 0; p < h.nodes; p++) sum[p + 1] = sum[p] + (m.value[h.order[p]] || 0);
  const shown = [...boxes, ...open.map((g) => h.nodes + g)];
  for (const item of shown) {
    const places = copiesOf(session, item);
    if (places.length < 2 || Number.isNaN(value[item])) continue;
    copies.set(item, places.length);
    if (m.combine === "sum") value[item] = places.reduce((all, [a, b]) => all + sum[b] - sum[a], 0);
    else
      for (const [a, b] of places)
        for (let p = a; p < b; p++) if (m.value[h.order[p]] > value[item]) value[item] = m.value[h.order[p]];
  }
  return { value, copies, boxes };
}
