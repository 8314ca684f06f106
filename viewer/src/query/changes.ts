/** What a pass did to each node: added, removed or changed; and how much each pass did. */

import type { Graph } from "../model/graph";
import type { Hierarchy } from "../model/hierarchy";

export const ADDED = 1;
export const REMOVED = 2;
export const CHANGED = 3;

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

/** What the stage's own pass did to each node shown; removed ones are there only where the view keeps them. */
export function changesOf(h: Hierarchy): Uint8Array {
  const { graph, stage, row } = h.stage;
  const mark = new Uint8Array(h.nodes);
  if (stage === 0) return mark;
  const ended = new Set<number>();
  for (let r = 0; r < graph.rows; r++) if (graph.died[r] === stage) ended.add(graph.id[r]);
  for (let n = 0; n < h.nodes; n++) {
    const r = row[n];
    if (r < 0) continue;
    if (graph.died[r] === stage) mark[n] = REMOVED;
    else if (graph.born[r] === stage) mark[n] = ended.has(graph.id[r]) ? CHANGED : ADDED;
  }
  return mark;
}
