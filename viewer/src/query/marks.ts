/** Which mark a group wears: that of its nodes when all are alike, "changed" when only some are. */

import type { Hierarchy } from "../model/hierarchy";

const CHANGED = 3;

export function markGroups(h: Hierarchy, mark: Uint8Array): void {
  for (let m = 1; m <= 3; m++) {
    const before = new Int32Array(h.nodes + 1);
    for (let p = 0; p < h.nodes; p++) before[p + 1] = before[p] + (mark[h.order[p]] === m ? 1 : 0);
    for (let g = 1; g < h.groups; g++) {
      const n = before[h.end[g]] - before[h.start[g]];
      if (n > 0) mark[h.nodes + g] = n === h.end[g] - h.start[g] ? m : CHANGED;
    }
  }
}
