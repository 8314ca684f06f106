/** How many nodes, ops and edges a stage has, in all and by group: facts of the stage, whatever is unfolded or marked in the view. */

import { insideRow, type Hierarchy } from "./hierarchy";
import { REMOVED } from "./stage";

/** Sums before each place in depth-first order, so that a group's figure is one difference. */
export interface Counts {
  readonly nodes: Int32Array;
  readonly ops: Int32Array;
  readonly edges: Int32Array;
  /** Operands whose producer the file does not have; each is one broken edge and no edge. */
  readonly broken: number;
  /** 1 by node: counted. What a pass removed and the ops in an unfolded node are not. */
  readonly counted: Uint8Array;
  /** Unfolded nodes: their groups, outermost ones. Each counts as the one node that it is. */
  readonly unfolded: readonly number[];
}

const known = new WeakMap<Hierarchy, Counts>();

export function countsOf(h: Hierarchy): Counts {
  let found = known.get(h);
  if (!found) known.set(h, (found = count(h)));
  return found;
}

export type Counted = "nodes" | "ops" | "edges";

/** What a group holds; of an unfolded node and of what lies in it, the ops inside. */
export function countIn(h: Hierarchy, group: number, what: Counted): number {
  const c = countsOf(h);
  const whole = c[what][h.end[group]] - c[what][h.start[group]];
  return withinInside(h, group) ? inside(h, group, what) : whole;
}

/** Whether a group is an unfolded node, or lies in one. */
export function withinInside(h: Hierarchy, group: number): boolean {
  if (!h.stage.graph.groups.inside) return false;
  for (let g = group; g > 0; g = h.parent[h.nodes + g] - h.nodes) if (insideRow(h, g) >= 0) return true;
  return false;
}

function inside(h: Hierarchy, group: number, what: Counted): number {
  let sum = 0;
  for (let p = h.start[group]; p < h.end[group]; p++) sum += figure(h, h.order[p], what);
  return sum;
}

function figure(h: Hierarchy, node: number, what: Counted): number {
  const { row, graph, inputs } = h.stage;
  const r = row[node];
  if (r < 0) return 0;
  if (what === "nodes") return 1;
  if (what === "ops") return graph.strings.at(graph.kind[r]) === "source" ? 0 : 1;
  let edges = 0;
  for (let i = inputs.offsets[node]; i < inputs.offsets[node + 1]; i++) if (inputs.values[i] >= 0) edges++;
  return edges;
}

function count(h: Hierarchy): Counts {
  const { stage } = h;
  const N = h.nodes;
  const counted = new Uint8Array(N).fill(1);
  const unfolded: number[] = [];
  for (let g = 1; stage.graph.groups.inside && g < h.groups; g++) {
    if (insideRow(h, g) < 0 || withinInside(h, h.parent[N + g] - N)) continue;
    unfolded.push(g);
    for (let p = h.start[g]; p < h.end[g]; p++) if (ofBody(h, h.order[p])) counted[h.order[p]] = 0;
  }
  for (let n = 0; n < N; n++) if (stage.row[n] < 0 || stage.change[n] === REMOVED) counted[n] = 0;
  const out = { nodes: new Int32Array(N + 1), ops: new Int32Array(N + 1), edges: new Int32Array(N + 1) };
  const isSource = new Map<number, boolean>();
  let broken = 0;
  for (let p = 0; p < N; p++) {
    const n = h.order[p];
    if (!counted[n]) continue;
    const kind = stage.graph.kind[stage.row[n]];
    let source = isSource.get(kind);
    if (source === undefined) isSource.set(kind, (source = stage.graph.strings.at(kind) === "source"));
    out.nodes[p + 1] = 1;
    out.ops[p + 1] = source ? 0 : 1;
    for (let i = stage.inputs.offsets[n]; i < stage.inputs.offsets[n + 1]; i++) {
      if (stage.inputs.values[i] >= 0) out.edges[p + 1]++;
      else if (operand(h, n, i) >= 0) broken++;
    }
  }
  for (const g of unfolded) {
    if (h.start[g] === h.end[g]) continue;
    const r = insideRow(h, g);
    const at = h.start[g] + 1;
    out.nodes[at]++;
    out.ops[at]++;
    out.edges[at] += stage.graph.inputs.offsets[r + 1] - stage.graph.inputs.offsets[r];
  }
  for (let p = 0; p < N; p++) {
    out.nodes[p + 1] += out.nodes[p];
    out.ops[p + 1] += out.ops[p];
    out.edges[p + 1] += out.edges[p];
  }
  return { ...out, broken, counted, unfolded };
}

/** Whether a node is of an unfolded body; weights that moved in beside it are not. */
function ofBody(h: Hierarchy, node: number): boolean {
  const { graph, row } = h.stage;
  const { inside } = graph.groups;
  const r = row[node];
  if (r < 0 || !inside) return false;
  for (let i = graph.groupsOf.offsets[r]; i < graph.groupsOf.offsets[r + 1]; i++)
    if (inside[graph.groupsOf.values[i]] >= 0) return true;
  return false;
}

/** The id that an operand names; negative for an operand that was left out on purpose. */
function operand(h: Hierarchy, node: number, entry: number): number {
  const { graph, row, inputs } = h.stage;
  return graph.inputs.values[graph.inputs.offsets[row[node]] + entry - inputs.offsets[node]];
}
