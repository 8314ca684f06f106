/** What a graph looks like in one stage: its live nodes in a stable topological order, and edges. */

import type { Csr } from "../base/csr";
import type { Graph } from "./graph";

/**
 * Nodes are numbered 0..count-1 in topological order (cycles of foreign files are cut where they
 * close). `row[n]` is the node's row in the graph; for the graph's outputs, which are no rows, it is
 * -1 - k for output k.
 */
export interface StageGraph {
  readonly graph: Graph;
  readonly stage: number;
  readonly count: number;
  /** How many are nodes of the recording, the first ones: what is told wherever nodes are counted. */
  readonly nodes: number;
  readonly row: Int32Array;
  readonly nodeOfRow: Int32Array;
  /** Operands: `inputs.values` are producing nodes (-1 when the file names none that is alive). */
  readonly inputs: Csr;
  /** Tensor of each operand: an index into all outputs of all nodes, `tensorStart[node] + port`. */
  readonly inputTensor: Int32Array;
  readonly tensorStart: Int32Array;
  /** Consumers of each node, one entry for each operand that reads it. */
  readonly users: Csr;
  readonly edges: number;
  /** 1 for the graph's own inputs. */
  readonly isInput: Uint8Array;
  /** Whether what the stage removed is there too, and what became of each node: SAME, ADDED ... */
  readonly diff: boolean;
  readonly change: Uint8Array;
}

export const SAME = 0;
export const ADDED = 1;
export const REMOVED = 2;
export const CHANGED = 3;

/** With `diff`, nodes that the stage's pass removed are kept in their place, marked as such. */
export function selectStage(graph: Graph, stage: number, diff = false): StageGraph {
  const { born, died } = graph;
  const info = graph.info.stages[stage];
  const live: number[] = [];
  const fills = new Map<number, boolean>();
  for (let r = 0; r < graph.rows; r++) {
    if (born[r] > stage || (died[r] >= 0 && died[r] <= stage)) continue;
    let alloc = fills.get(graph.op[r]);
    if (alloc === undefined) fills.set(graph.op[r], (alloc = ALLOC.test(graph.strings.head(graph.op[r], 60))));
    if (!alloc) live.push(r);
  }
  const fate = new Map<number, number>(); // row -> what became of it, where not SAME
  if (diff && stage > 0) markChanges(graph, stage, live, fate);

  const rowOfId = idMap(graph, live);
  const stands = tensorRows(graph, live, rowOfId);
  const order = topological(
    graph,
    stands ? live.filter((r) => stands[r] === r) : live,
    stands ? through(rowOfId, stands) : rowOfId,
  );
  const extra = outputsToShow(graph, stage, rowOfId);
  const count = order.length + extra.length;
  const row = new Int32Array(count);
  row.set(order);
  const nodeOfRow = new Int32Array(graph.rows).fill(-1);
  for (let n = 0; n < order.length; n++) nodeOfRow[row[n]] = n;
  // Whoever speaks of a tensor means what makes it.
  if (stands) for (const r of live) nodeOfRow[r] = nodeOfRow[stands[r]];
  for (let k = 0; k < extra.length; k++) row[order.length + k] = -1 - extra[k];

  const inOffsets = new Int32Array(count + 1);
  const tensorStart = new Int32Array(count + 1);
  for (let n = 0; n < count; n++) {
    const r = row[n];
    inOffsets[n + 1] = inOffsets[n] + (r < 0 ? 1 : graph.inputs.offsets[r + 1] - graph.inputs.offsets[r]);
    // A node without recorded outputs still has one tensor that others may read.
    const outs = r < 0 ? 0 : Math.max(1, graph.outputs.offsets[r + 1] - graph.outputs.offsets[r]);
    tensorStart[n + 1] = tensorStart[n] + outs;
  }
  const inputs = new Int32Array(inOffsets[count]);
  const inputTensor = new Int32Array(inOffsets[count]);
  const userCount = new Int32Array(count + 1);
  let edges = 0;
  for (let n = 0; n < count; n++) {
    const r = row[n];
    for (let i = inOffsets[n], k = 0; i < inOffsets[n + 1]; i++, k++) {
      const at = r < 0 ? -1 : graph.inputs.offsets[r] + k;
      const id = r < 0 ? info.output_nodes[-1 - r] : graph.inputs.values[at];
      let port = r < 0 ? info.output_ports[-1 - r] : (graph.ports.values[at] ?? 0);
      const from = rowOfId.get(id);
      // A tensor that is recorded as a node is one of its producer's outputs.
      if (stands && from !== undefined && from >= 0 && stands[from] !== from)
        port = graph.ports.values[graph.inputs.offsets[from]] ?? 0;
      const src = from === undefined || from < 0 ? -1 : nodeOfRow[from];
      inputs[i] = src;
      if (src < 0) {
        inputTensor[i] = -1;
        continue;
      }
      const outs = tensorStart[src + 1] - tensorStart[src];
      inputTensor[i] = tensorStart[src] + Math.min(Math.max(0, port), outs - 1);
      userCount[src + 1]++;
      edges++;
    }
  }
  for (let n = 0; n < count; n++) userCount[n + 1] += userCount[n];
  const users = new Int32Array(edges);
  const at = userCount.slice(0, count);
  for (let n = 0; n < count; n++) {
    for (let i = inOffsets[n]; i < inOffsets[n + 1]; i++) if (inputs[i] >= 0) users[at[inputs[i]]++] = n;
  }
  const isInput = new Uint8Array(count);
  for (const id of info.inputs) {
    const r = rowOfId.get(id);
    if (r !== undefined && r >= 0) isInput[nodeOfRow[r]] = 1;
  }
  const change = new Uint8Array(count);
  for (const [r, what] of fate) change[nodeOfRow[r]] = what;
  return {
    diff,
    change,
    graph,
    stage,
    count,
    nodes: order.length,
    row,
    nodeOfRow,
    inputs: { offsets: inOffsets, values: inputs },
    inputTensor,
    tensorStart,
    users: { offsets: userCount, values: users },
    edges,
    isInput,
  };
}

/** Finds what is new, gone or different, and puts what is gone back among the live rows. */
function markChanges(graph: Graph, stage: number, live: number[], fate: Map<number, number>): void {
  const ended = new Map<number, number>(); // id -> row that ended here
  for (let r = 0; r < graph.rows; r++) if (graph.died[r] === stage) ended.set(graph.id[r], r);
  for (const r of live) {
    if (graph.born[r] !== stage) continue;
    fate.set(r, ended.has(graph.id[r]) ? CHANGED : ADDED);
    ended.delete(graph.id[r]);
  }
  for (const r of ended.values()) {
    fate.set(r, REMOVED);
    live.push(r);
  }
  live.sort((a, b) => a - b);
}

/** What traces call a value, and programs one of several results, where others have an edge. */
const TENSOR = /^Var$|(?:^|[._ ])getitem$/;
/** Memory that a program asks for before the op that fills it: no step of the computation. */
const ALLOC = /(?:^|[._])alloc$/;

/**
 * For each row the row that stands for it: the producer of a value that is recorded as a node, between an op
 * and its readers, without a name of its own. Null when a graph has no such nodes.
 */
function tensorRows(graph: Graph, live: readonly number[], rowOfId: IdMap): Int32Array | null {
  let stands: Int32Array | null = null;
  const isTensor = new Map<number, boolean>();
  for (const r of live) {
    let known = isTensor.get(graph.op[r]);
    if (known === undefined) isTensor.set(graph.op[r], (known = TENSOR.test(graph.strings.head(graph.op[r], 40))));
    // A variable with a name is one that somebody wants to see.
    if (
      !known ||
      (graph.name[r] > 0 && graph.strings.head(graph.op[r], 4) === "Var") ||
      graph.inputs.offsets[r + 1] - graph.inputs.offsets[r] !== 1
    )
      continue;
    const from = rowOfId.get(graph.inputs.values[graph.inputs.offsets[r]]);
    if (from === undefined || from < 0 || from === r) continue;
    stands ??= Int32Array.from({ length: graph.rows }, (_, i) => i);
    // Producers come first in a file, so a result of a result is followed to its op.
    stands[r] = stands[from];
  }
  return stands;
}

const through = (rows: IdMap, stands: Int32Array): IdMap => ({
  get: (id) => {
    const r = rows.get(id);
    return r === undefined || r < 0 ? r : stands[r];
  },
});

interface IdMap {
  get(id: number): number | undefined;
}

/** Rows by id, -1 or undefined for what is not there. Ids are dense in practice: an array then, a Map only for files with wild ids. */
export function idMap(graph: Graph, live: readonly number[]): IdMap {
  let max = -1;
  let min = 0;
  for (const r of live) {
    if (graph.id[r] > max) max = graph.id[r];
    if (graph.id[r] < min) min = graph.id[r];
  }
  if (min >= 0 && max < live.length * 8 + 1024) {
    const table = new Int32Array(max + 1).fill(-1);
    for (const r of live) table[graph.id[r]] = r;
    return { get: (id) => (id >= 0 && id <= max ? table[id] : undefined) };
  }
  const map = new Map<number, number>();
  for (const r of live) map.set(graph.id[r], r);
  return map;
}

/**
 * Rows so that producers stand before consumers and otherwise stay in file order; a node made by a
 * pass takes the place of what it replaces, so that stepping through passes moves little.
 */
function topological(graph: Graph, live: readonly number[], rowOfId: IdMap): Int32Array {
  const n = live.length;
  const out = new Int32Array(n);
  let done = 0;
  const state = new Uint8Array(graph.rows); // 0 new, 1 on the stack, 2 placed
  const next = new Int32Array(graph.rows);
  const stack: number[] = [];
  for (const start of placed(graph, live)) {
    if (state[start] !== 0) continue;
    stack.push(start);
    state[start] = 1;
    while (stack.length > 0) {
      const r = stack[stack.length - 1];
      const from = graph.inputs.offsets[r];
      const size = graph.inputs.offsets[r + 1] - from;
      let pushed = false;
      while (next[r] < size) {
        const p = rowOfId.get(graph.inputs.values[from + next[r]++]);
        if (p !== undefined && p >= 0 && state[p] === 0) {
          state[p] = 1;
          stack.push(p);
          pushed = true;
          break;
        }
      }
      if (pushed) continue;
      stack.pop();
      state[r] = 2;
      out[done++] = r;
    }
  }
  return out;
}

function placed(graph: Graph, live: readonly number[]): readonly number[] {
  let made = false;
  for (const r of live) if (graph.replaces.offsets[r + 1] > graph.replaces.offsets[r] || graph.born[r] > 0) made = true;
  if (!made) return live;
  const first = new Map<number, number>();
  for (let r = 0; r < graph.rows; r++) if (!first.has(graph.id[r])) first.set(graph.id[r], r);
  const key = new Float64Array(graph.rows).fill(-1);
  for (let r = 0; r < graph.rows; r++) {
    let k = -1;
    for (let i = graph.replaces.offsets[r]; i < graph.replaces.offsets[r + 1]; i++) {
      const p = first.get(graph.replaces.values[i]);
      if (p !== undefined && p < r && key[p] > k) k = key[p];
    }
    if (k < 0) k = graph.born[r] === 0 ? r : (first.get(graph.id[r]) ?? r);
    key[r] = k;
  }
  return [...live].sort((a, b) => key[a] - key[b] || a - b);
}

/** More outputs than this (a training trace has one for each variable) would bury what makes them. */
const MOST_OUTPUTS = 32;

/** Output values that no node stands for; formats with explicit output nodes need none. */
function outputsToShow(graph: Graph, stage: number, rowOfId: IdMap): number[] {
  const info = graph.info.stages[stage];
  const out: number[] = [];
  if (info.output_nodes.length > MOST_OUTPUTS) return out;
  for (let k = 0; k < info.output_nodes.length; k++) {
    const r = rowOfId.get(info.output_nodes[k]);
    if (r === undefined || r < 0) continue;
    if (!/^output$/i.test(graph.strings.head(graph.op[r], 16))) out.push(k);
  }
  return out;
}
