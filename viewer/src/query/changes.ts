/** Decides what a pass did to each node: added, removed or changed, seen from after the pass or from before it. */

import type { Graph } from "../model/graph";
import type { Hierarchy } from "../model/hierarchy";

/** As in an overlay's `mark`. */
export const ADDED = 1;
export const REMOVED = 2;
export const CHANGED = 3;

export interface Changes {
  /** By item; a group is marked when all that is in it is marked alike. */
  readonly mark: Uint8Array;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
}

export interface StageChange {
  readonly nodes: number;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
}

/** For each stage: nodes alive, and what its pass added, removed and changed. Linear in all rows. */
export function stageChanges(graph: Graph): StageChange[] {
  const stages = graph.info.stages.length;
  const born = new Int32Array(stages + 1);
  const died = new Int32Array(stages + 1);
  const changed = new Int32Array(stages + 1);
  const last = new Map<number, number>(); // row that an id had before, by id
  for (let r = 0; r < graph.rows; r++) {
    const b = Math.min(stages, graph.born[r]);
    born[b]++;
    if (graph.died[r] >= 0) died[Math.min(stages, graph.died[r])]++;
    if (graph.born[r] > 0) {
      const before = last.get(graph.id[r]);
      if (before !== undefined && graph.died[before] === graph.born[r]) changed[b]++;
    }
    last.set(graph.id[r], r);
  }
  const out: StageChange[] = [];
  let nodes = 0;
  for (let s = 0; s < stages; s++) {
    nodes += born[s] - died[s];
    out.push({ nodes, added: s === 0 ? 0 : born[s] - changed[s], removed: died[s] - changed[s], changed: changed[s] });
  }
  return out;
}

/** Marks on the stage that is shown: "after" is what its own pass did, "before" what the next one will do. */
export function changesOf(h: Hierarchy, side: "after" | "before"): Changes {
  const { graph, stage, row } = h.stage;
  const mark = new Uint8Array(h.nodes + h.groups);
  const counts = [0, 0, 0, 0];
  if (side === "after" && stage > 0) {
    const ended = new Set<number>();
    for (let r = 0; r < graph.rows; r++) if (graph.died[r] === stage) ended.add(graph.id[r]);
    for (let n = 0; n < h.nodes; n++) if (row[n] >= 0 && graph.born[row[n]] === stage) mark[n] = ended.has(graph.id[row[n]]) ? CHANGED : ADDED;
  } else if (side === "before") {
    const next = stage + 1;
    const made = new Set<number>();
    for (let r = 0; r < graph.rows; r++) if (graph.born[r] === next) made.add(graph.id[r]);
    for (let n = 0; n < h.nodes; n++) if (row[n] >= 0 && graph.died[row[n]] === next) mark[n] = made.has(graph.id[row[n]]) ? CHANGED : REMOVED;
  }
  for (let n = 0; n < h.nodes; n++) counts[mark[n]]++;
  markGroups(h, mark);
  return { mark, added: counts[ADDED], removed: counts[REMOVED], changed: counts[CHANGED] };
}

/** A group wears a mark when something in it changed: its own kind if all is alike, else "changed". */
export function markGroups(h: Hierarchy, mark: Uint8Array): void {
  const count = new Int32Array(4 * h.groups);
  const before = [1, 2, 3].map((m) => {
    const sum = new Int32Array(h.nodes + 1);
    for (let p = 0; p < h.nodes; p++) sum[p + 1] = sum[p] + (mark[h.order[p]] === m ? 1 : 0);
    return sum;
  });
  for (let g = 1; g < h.groups; g++) {
    const size = h.end[g] - h.start[g];
    let any = 0;
    for (let m = 1; m <= 3; m++) {
      count[4 * g + m] = before[m - 1][h.end[g]] - before[m - 1][h.start[g]];
      any += count[4 * g + m];
      if (count[4 * g + m] === size) mark[h.nodes + g] = m;
    }
    if (any > 0 && mark[h.nodes + g] === 0) mark[h.nodes + g] = CHANGED;
  }
}
