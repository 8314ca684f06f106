/** Lists of modules that computation leaves and comes back to are no boxes: their members stand where they work. */

import { onCycles } from "./calls";
import type { StageGraph } from "./stage";

/**
 * A U-Net keeps its way down in one list and its way up in another, and pools stand between the members of
 * both: as boxes the lists would have to be above and below the same pool. Each such list (a group with
 * groups inside, on a cycle among its siblings) is dissolved. `home` and `parent` are changed.
 */
export function dissolveContainers(stage: StageGraph, home: Int32Array, parent: Int32Array, rows: number): void {
  // Dissolving one list can bring another to light; nesting is the limit, and four levels are more than models have.
  for (let round = 0; round < 4; round++) {
    const suspects = scattered(stage, home, parent, rows);
    if (suspects.size === 0) return;
    const cyclic = onCycles(stage, home, parent, suspects);
    if (cyclic.size === 0) return;
    for (let g = 0; g < rows; g++) {
      let up = parent[g];
      while (up >= 0 && cyclic.has(up)) up = parent[up];
      parent[g] = up;
    }
    for (let n = 0; n < stage.count; n++) {
      while (home[n] >= 0 && cyclic.has(home[n])) home[n] = parent[home[n]];
    }
  }
}

/** Groups around groups whose ops are not in a row of the order of computation: only these can be on a cycle. */
function scattered(stage: StageGraph, home: Int32Array, parent: Int32Array, rows: number): Set<number> {
  const first = new Int32Array(rows).fill(stage.count);
  const last = new Int32Array(rows).fill(-1);
  const count = new Int32Array(rows);
  const outer = new Uint8Array(rows);
  for (let g = 0; g < rows; g++) if (parent[g] >= 0) outer[parent[g]] = 1;
  // Weights stand anywhere in the order; what computes does not.
  const works = new Int32Array(stage.count + 1);
  for (let n = 0; n < stage.count; n++) {
    const idle = stage.inputs.offsets[n + 1] === stage.inputs.offsets[n];
    works[n + 1] = works[n] + (idle ? 0 : 1);
    if (idle) continue;
    for (let g = home[n]; g >= 0; g = parent[g]) {
      count[g]++;
      if (n < first[g]) first[g] = n;
      if (n > last[g]) last[g] = n;
    }
  }
  const out = new Set<number>();
  for (let g = 0; g < rows; g++)
    if (outer[g] && last[g] >= 0 && works[last[g] + 1] - works[first[g]] !== count[g]) out.add(g);
  return out;
}
