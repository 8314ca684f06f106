/** The order of ports that a drawing asks of the unfolded groups in it, so that its edges to them need not cross. */

import type { PortWish } from "./input";
import { EDGE, type Template } from "./template";

/** For each unfolded member whose ports stand against the order of its edges: how they should stand. */
export function portWishes(
  t: Template,
  open: (member: number) => Template | null,
  across: boolean,
): Map<number, PortWish> {
  const out = new Map<number, PortWish>();
  const found = new Map<number, End[]>();
  const axis = across ? 1 : 0;
  const add = (member: number, leaves: boolean, at: number, other: number): void => {
    const list = found.get(member);
    const end = { leaves, at: at - t.rect[4 * member + axis], other };
    if (list) list.push(end);
    else found.set(member, [end]);
  };
  for (let e = 0; e < t.edgeSrc.length; e++) {
    if (t.edgeKind[e] !== EDGE) continue;
    const [a, b] = [t.pathStart[e], t.pathStart[e + 1]];
    if (b - a < 2) continue;
    const at = (i: number): number => t.points[3 * i + axis];
    // Where the edge goes in the next row, and where it comes from in the last one.
    let [next, last] = [a, b - 1];
    while (next + 1 < b && Math.abs(at(next) - at(a)) < 0.01) next++;
    while (last > a && Math.abs(at(last) - at(b - 1)) < 0.01) last--;
    // All that goes straight to one box goes to one place: in which order is for the group itself to say.
    const straight = Math.abs(at(next) - at(b - 1)) < 0.01;
    const ends = (member: number, otherwise: number): number =>
      straight && member >= 0 && !open(member)
        ? t.rect[4 * member + axis] + t.rect[4 * member + 2 + axis] / 2
        : otherwise;
    if (t.edgeSrc[e] >= 0 && open(t.edgeSrc[e])) add(t.edgeSrc[e], true, at(a), ends(t.edgeDst[e], at(next)));
    if (t.edgeDst[e] >= 0 && open(t.edgeDst[e])) add(t.edgeDst[e], false, at(b - 1), ends(t.edgeSrc[e], at(last)));
  }
  for (const [member, list] of found) {
    const inside = open(member) as Template;
    const ins = orderOf(
      inside.inAt,
      list.filter((v) => !v.leaves),
    );
    const outs = orderOf(
      inside.outAt,
      list.filter((v) => v.leaves),
    );
    if (ins || outs) out.set(member, { ins, outs });
  }
  return out;
}

interface End {
  readonly leaves: boolean;
  /** Place on the border, and what the edge comes from or goes to. */
  readonly at: number;
  readonly other: number;
}

/** Places of ports in the order of what they are joined to, equal for equal; null where they stand so already. */
function orderOf(places: Float32Array, ends: readonly End[]): Float32Array | null {
  const k = places.length;
  if (k < 2 || ends.length < 2) return null;
  const sum = new Float64Array(k);
  const count = new Int32Array(k);
  for (const end of ends) {
    let port = 0;
    for (let i = 1; i < k; i++) if (Math.abs(places[i] - end.at) < Math.abs(places[port] - end.at)) port = i;
    sum[port] += end.other;
    count[port]++;
  }
  const now = Array.from(places.keys()).sort((p, q) => places[p] - places[q]);
  // A port that nothing is drawn to stays behind the one before it.
  let last = -Infinity;
  const wish = new Float64Array(k);
  for (const p of now) wish[p] = last = count[p] > 0 ? sum[p] / count[p] : last;
  if (now.every((p, i) => i === 0 || wish[now[i - 1]] <= wish[p] + SAME)) return null;
  const out = new Float32Array(k);
  let rank = 0;
  [...now]
    .sort((p, q) => wish[p] - wish[q])
    .forEach((p, i, all) => {
      if (i > 0 && wish[p] > wish[all[i - 1]] + SAME) rank++;
      out[p] = rank;
    });
  return out;
}

/** Wishes nearer than this are one place. */
const SAME = 0.5;
