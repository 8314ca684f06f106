/** What a module computes from constants alone (tables of positions, masks) is one box beside the model, not the way into it. */

import type { Graph } from "./graph";
import { addedColumns, addedGroups } from "./made";
import type { StageGraph } from "./stage";

/** Fewer ops than this are no detour. */
const LEAST = 4;
/** Nobody reads a graph of this size op by op. */
const MOST = 100_000;
const MODULE = "module";

/**
 * The stage's graph with a group for each connected piece of such ops in a module that has other work, too. An op belongs to it when
 * everything before it, up to the constants, stands in the same module: so no edge leads out of the group and back.
 */
export function withPrepared(stage: StageGraph): Graph {
  const { graph } = stage;
  const { groups, strings } = graph;
  if (stage.count > MOST) return graph;
  const isModule = Uint8Array.from(groups.grouping, (g) => (g >= 0 && strings.at(g) === MODULE ? 1 : 0));
  const moduleOf = (row: number): number => {
    let found = -1;
    for (let i = graph.groupsOf.offsets[row]; i < graph.groupsOf.offsets[row + 1]; i++) {
      const g = graph.groupsOf.values[i];
      if (g >= 0 && g < groups.rows && isModule[g]) found = g;
    }
    return found;
  };
  const home = new Int32Array(stage.count).fill(-1);
  const works = new Int32Array(groups.rows);
  /** Of such ops: another one that it is joined with, itself for the first of each piece; -1 for all other nodes. */
  const joined = new Int32Array(stage.count).fill(-1);
  const first = (n: number): number => {
    while (joined[n] !== n) n = joined[n] = joined[joined[n]];
    return n;
  };
  for (let n = 0; n < stage.count; n++) {
    const r = stage.row[n];
    if (r < 0 || isConstant(stage, n)) continue;
    home[n] = moduleOf(r);
    for (let g = home[n]; g >= 0; g = groups.parent[g]) works[g]++;
    if (home[n] < 0 || stage.isInput[n]) continue;
    const before = stage.inputs.values.subarray(stage.inputs.offsets[n], stage.inputs.offsets[n + 1]);
    const made = before.filter((from) => from < 0 || !isConstant(stage, from));
    if (!made.every((from) => from >= 0 && from < n && joined[from] >= 0 && home[from] === home[n])) continue;
    joined[n] = n;
    for (const from of made) joined[first(from)] = n;
  }
  const ops = new Map<number, number>();
  for (let n = 0; n < stage.count; n++) if (joined[n] >= 0) ops.set(first(n), (ops.get(first(n)) ?? 0) + 1);
  const parent: number[] = [];
  const rowOf = new Map<number, number>();
  for (const [n, count] of ops)
    if (count >= LEAST && works[home[n]] > 2 * count) rowOf.set(n, groups.rows + parent.push(home[n]) - 1);
  if (parent.length === 0) return graph;
  const added = new Int32Array(graph.rows).fill(-1);
  for (let n = 0; n < stage.count; n++) if (joined[n] >= 0) added[stage.row[n]] = rowOf.get(first(n)) ?? -1;
  const name = strings.intern("from constants");
  const columns = addedColumns(
    graph,
    groups.grouping[parent[0]],
    parent,
    parent.map(() => name),
  );
  return graph.joined([], { ...graph, groups: columns, groupsOf: addedGroups(graph, added) });
}

/** A value that the model starts with, no input of it. */
function isConstant(stage: StageGraph, node: number): boolean {
  const { graph } = stage;
  const r = stage.row[node];
  return (
    r >= 0 &&
    !stage.isInput[node] &&
    stage.inputs.offsets[node] === stage.inputs.offsets[node + 1] &&
    graph.strings.at(graph.kind[r]) === "source" &&
    !/^(input|placeholder)$/i.test(graph.strings.head(graph.op[r], 16))
  );
}
