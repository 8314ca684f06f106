/** What had to be mended so that a graph could be drawn: edges from nowhere, cycles, ids that two nodes share. */

import { countsOf } from "../model/counts";
import { REMOVED } from "../model/stage";
import type { Shown } from "./shown";

export interface Repairs {
  /** Operands whose producer the file does not have. */
  readonly broken: number;
  /** Edges that were cut to open a cycle. */
  readonly cut: number;
  /** Nodes that share their id with an earlier one. */
  readonly doubled: number;
  /** The first node of each kind, to go to; -1 where there is none. */
  readonly brokenAt: number;
  readonly cutAt: number;
  readonly doubledAt: number;
}

export function repairs(s: Shown): Repairs {
  const { stage, graph } = s;
  let [cut, doubled, brokenAt, cutAt, doubledAt] = [0, 0, -1, -1, -1];
  const seen = new Set<number>();
  for (let n = 0; n < stage.count; n++) {
    const r = stage.row[n];
    if (r < 0 || stage.change[n] === REMOVED) continue;
    if (seen.has(graph.id[r])) {
      doubled++;
      if (doubledAt < 0) doubledAt = n;
    }
    seen.add(graph.id[r]);
    const first = stage.inputs.offsets[n];
    for (let i = first; i < stage.inputs.offsets[n + 1]; i++) {
      const from = stage.inputs.values[i];
      // Nodes stand in the order of computation: what reads a later one closes a cycle.
      if (from >= n) {
        cut++;
        if (cutAt < 0) cutAt = n;
      } else if (from < 0 && brokenAt < 0 && graph.inputs.values[graph.inputs.offsets[r] + i - first] >= 0)
        brokenAt = n;
    }
  }
  return { broken: countsOf(s.h).broken, cut, doubled, brokenAt, cutAt, doubledAt };
}
