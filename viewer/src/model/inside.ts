/** How a node that holds a graph is drawn unfolded: the ops of its body in its place, in a group of their own. */

import type { Csr } from "../base/csr";
import type { Graph, GroupColumns } from "./graph";

/** Added to a node's id, the key of its unfolded body; keys of other groups are rows and stay far below. */
export const INSIDE = 2 ** 30;

/** Rows that no stage shows are born after all of them. */
const NEVER = 2 ** 30;

/** The graph inside a row that can be unfolded in place: one body that reads the node's operands in order; else -1. */
export function bodyOf(graph: Graph, row: number): number {
  if (row < 0 || graph.bodies.offsets[row + 1] - graph.bodies.offsets[row] !== 1) return -1;
  const body = graph.bodies.values[graph.bodies.offsets[row]];
  const last = graph.all[body]?.stages.at(-1);
  return last && last.inputs.length === graph.inputs.offsets[row + 1] - graph.inputs.offsets[row] ? body : -1;
}

interface Unfolded {
  readonly row: number;
  readonly id: number;
  readonly body: Graph;
  /** First row of the body's rows in the joined graph, and what is added to its ids. */
  readonly base: number;
  readonly shift: number;
  readonly inputs: ReadonlyMap<number, number>;
}

type Value = readonly [id: number, port: number];

/**
 * The graph with some nodes replaced by their insides, for one stage of it. Rows of the bodies follow the
 * graph's own; ids of body nodes are moved behind all others.
 */
export async function unfoldBodies(
  graph: Graph,
  stage: number,
  ids: readonly number[],
  other: (index: number) => Promise<Graph>,
): Promise<Graph> {
  const wanted = new Set(ids);
  const list: Unfolded[] = [];
  let base = graph.rows;
  let shift = graph.id.reduce((most, id) => Math.max(most, id), 0) + 1;
  for (let row = 0; row < graph.rows; row++) {
    if (!wanted.has(graph.id[row]) || graph.born[row] > stage || (graph.died[row] >= 0 && graph.died[row] <= stage))
      continue;
    const inside = bodyOf(graph, row);
    if (inside < 0) continue;
    const body = await other(inside);
    const inputs = new Map((body.info.stages.at(-1)?.inputs ?? []).map((id, k) => [id, k]));
    list.push({ row, id: graph.id[row], body, base, shift, inputs });
    base += body.rows;
    shift += body.id.reduce((most, id) => Math.max(most, id), 0) + 1;
  }
  return list.length > 0 ? join(graph, stage, list) : graph;
}

function join(graph: Graph, stage: number, list: readonly Unfolded[]): Graph {
  const byId = new Map(list.map((u) => [u.id, u]));
  const operand = (u: Unfolded, k: number): Value => {
    const at = graph.inputs.offsets[u.row] + k;
    return [graph.inputs.values[at], graph.ports.values[at] ?? 0];
  };
  const within = (u: Unfolded, id: number, port: number): Value => {
    const k = u.inputs.get(id);
    return k === undefined ? [id + u.shift, port] : operand(u, k);
  };
  /** What a reader of an unfolded node reads now; a body may hand on an operand that is unfolded, too. */
  const resolve = ([id, port]: Value): Value => {
    let at: Value = [id, port];
    for (let u = byId.get(at[0]), hops = 0; u && hops <= list.length; u = byId.get(at[0]), hops++) {
      const last = u.body.info.stages.at(-1);
      const out = last?.output_nodes[at[1]];
      if (last === undefined || out === undefined) return [-1, 0];
      at = within(u, out, last.output_ports[at[1]] ?? 0);
    }
    return at;
  };
  const pairs = (ids: Csr, ports: Csr, read: (id: number, port: number) => Value): [Int32Array, Int32Array] => {
    const a = ids.values.slice();
    const b = new Int32Array(a.length);
    for (let i = 0; i < a.length; i++) [a[i], b[i]] = read(a[i], ports.values[i] ?? 0);
    return [a, b];
  };
  const reads = [
    pairs(graph.inputs, graph.ports, (id, port) => (byId.has(id) ? resolve([id, port]) : [id, port])),
    ...list.map((u) => pairs(u.body.inputs, u.body.ports, (id, port) => resolve(within(u, id, port)))),
  ];
  const bodies = list.map((u) => u.body);
  const groups = addGroups(graph, list);
  const born = joined([
    graph.born,
    ...list.map((u) => u.body.born.map((_, r) => (isDrawn(u, r) ? graph.born[u.row] : NEVER))),
  ]);
  const died = joined([graph.died, ...list.map((u) => u.body.died.map(() => graph.died[u.row]))]);
  for (let r = 0; r < graph.rows; r++) {
    if (!byId.has(graph.id[r])) continue;
    born[r] = NEVER;
    died[r] = -1;
  }
  const info = {
    ...graph.info,
    stages: graph.info.stages.map((s, k) => {
      if (k !== stage) return s;
      const outs = s.output_nodes.map((id, i) => resolve([id, s.output_ports[i] ?? 0]));
      return { ...s, output_nodes: outs.map((v) => v[0]), output_ports: outs.map((v) => v[1]) };
    }),
  };
  const inputs = joinedLists([graph, ...bodies].map((g, i) => ({ offsets: g.inputs.offsets, values: reads[i][0] })));
  return graph.joined(bodies, {
    info,
    groups: groups.columns,
    born,
    died,
    inputs,
    ports: { offsets: inputs.offsets, values: joined(reads.map((r) => r[1])) },
    id: joined([graph.id, ...list.map((u) => u.body.id.map((id) => id + u.shift))]),
    name: joined([graph, ...bodies].map((g) => g.name)),
    op: joined([graph, ...bodies].map((g) => g.op)),
    kind: joined([graph, ...bodies].map((g) => g.kind)),
    outputs: joinedLists([graph, ...bodies].map((g) => g.outputs)),
    replaces: joinedLists([graph, ...bodies].map((g) => g.replaces)),
    groupsOf: joinedLists([graph.groupsOf, ...list.map((u, k) => sameForAll(u.body.rows, groups.rowsOf[k]))]),
    // What is inside an unfolded body opens as a graph of its own: its ids are of this view alone.
    bodies: joinedLists([graph.bodies, ...bodies.map((b) => sameForAll(b.rows, []))]),
  });
}

const isDrawn = (u: Unfolded, row: number): boolean => u.body.died[row] < 0 && !u.inputs.has(u.body.id[row]);

/** One more group in each grouping for each unfolded node, where the node stood. */
function addGroups(graph: Graph, list: readonly Unfolded[]): { columns: GroupColumns; rowsOf: number[][] } {
  const { groups } = graph;
  const groupings = groups.rows > 0 ? [...new Set(groups.grouping)] : [-1];
  const rowsOf: number[][] = [];
  const grouping: number[] = [];
  const parent: number[] = [];
  const name: number[] = [];
  const inside: number[] = [];
  for (const u of list) {
    const own: number[] = [];
    for (const kind of groupings) {
      let holder = -1;
      for (let i = graph.groupsOf.offsets[u.row]; i < graph.groupsOf.offsets[u.row + 1]; i++) {
        if (groups.grouping[graph.groupsOf.values[i]] === kind) holder = graph.groupsOf.values[i];
      }
      own.push(groups.rows + grouping.length);
      grouping.push(kind);
      parent.push(holder);
      name.push(graph.op[u.row]);
      inside.push(u.row);
    }
    rowsOf.push(own);
  }
  const more = (a: Int32Array, b: readonly number[]): Int32Array => joined([a, Int32Array.from(b)]);
  const columns: GroupColumns = {
    rows: groups.rows + grouping.length,
    // Named by the node that is unfolded.
    key: more(
      groups.key,
      inside.map((r) => INSIDE + graph.id[r]),
    ),
    grouping: more(groups.grouping, grouping),
    parent: more(groups.parent, parent),
    name: more(groups.name, name),
    cls: more(
      groups.cls,
      grouping.map(() => 0),
    ),
    inside: more(new Int32Array(groups.rows).fill(-1), inside),
    table: groups.table,
  };
  return { columns, rowsOf };
}

function joined(parts: readonly Int32Array[]): Int32Array {
  const out = new Int32Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

function joinedLists(parts: readonly Csr[]): Csr {
  const offsets = new Int32Array(parts.reduce((n, p) => n + p.offsets.length - 1, 1));
  let row = 0;
  let at = 0;
  for (const p of parts) {
    for (let i = 1; i < p.offsets.length; i++) offsets[row + i] = at + p.offsets[i];
    row += p.offsets.length - 1;
    at += p.values.length;
  }
  return { offsets, values: joined(parts.map((p) => p.values)) };
}

function sameForAll(rows: number, values: readonly number[]): Csr {
  const offsets = new Int32Array(rows + 1);
  const out = new Int32Array(rows * values.length);
  for (let r = 0; r < rows; r++) {
    offsets[r + 1] = (r + 1) * values.length;
    out.set(values, r * values.length);
  }
  return { offsets, values: out };
}
