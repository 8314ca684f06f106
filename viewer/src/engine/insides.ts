/** Which nodes unfold together: one inside of identical groups stands for its counterparts in all of them. */

import { insideRow, type Hierarchy } from "../model/hierarchy";
import { INSIDE } from "../model/inside";

/** Keys of an item that has (or is) an inside and of those at the same place in groups identical to the ones around it. */
export function insideKeys(h: Hierarchy, item: number): number[] {
  const group = item >= h.nodes;
  let places = [group ? h.start[item - h.nodes] : h.pos[item]];
  for (let p = h.parent[item]; p >= 0; p = h.parent[p]) {
    const g = p - h.nodes;
    if (h.repeat[g] === 0) continue;
    const start = h.start[g];
    const period = (h.end[g] - start) / h.repeat[g];
    // Of one place in a run of twelve, all twelve.
    places = places.flatMap((at) =>
      Array.from({ length: h.repeat[g] }, (_, k) => start + k * period + ((at - start) % period)),
    );
  }
  const { graph, row } = h.stage;
  const keys = places.map((at) => {
    const node = h.order[at];
    if (!group) return row[node] < 0 ? 0 : INSIDE + graph.id[row[node]];
    let up = h.parent[node] - h.nodes;
    while (up > 0 && insideRow(h, up) < 0) up = h.parent[h.nodes + up] - h.nodes;
    return up > 0 ? INSIDE + graph.id[insideRow(h, up)] : 0;
  });
  return [...new Set(keys)].filter((k) => k > 0);
}
