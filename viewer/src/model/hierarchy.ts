/** Which boxes can exist: the forest of one grouping over one stage, made fit to be drawn. */

import { bucket, type Csr } from "../base/csr";
import { Ints } from "../base/grow";
import { splitCalls } from "./calls";
import { dissolveContainers } from "./containers";
import { keyWithin } from "./made";
import type { StageGraph } from "./stage";
import { STEP } from "./steps";
import { findRuns, hashGroups } from "./twins";

/** Rows of the file's groups, followed by one for each further call of a module that was cut into calls. */
export interface GroupRows {
  /** As in the file: what names go by. A list that was dissolved is nobody's parent in the hierarchy. */
  readonly parent: Int32Array;
  /** Row in the file. */
  readonly file: Int32Array;
  /** 0, or which further call of its module it is: 2, 3 ... */
  readonly call: Int32Array;
}

/**
 * Items are numbered in one space: nodes 0..nodes-1, then groups; `nodes + g` is group g, group 0 the
 * root. A group that holds nothing but one group is absorbed by it ("encoder.layer" is one box, not a
 * box in a box). Runs of three or more identical siblings get a group of their own.
 */
export interface Hierarchy {
  readonly stage: StageGraph;
  readonly grouping: string;
  readonly rows: GroupRows;
  readonly nodes: number;
  readonly groups: number;
  /** Item that holds an item; -1 for the root. */
  readonly parent: Int32Array;
  /** Items in each group, by first use. */
  readonly members: Csr;
  /** Nodes in depth-first order; those of group g are order[start[g] .. end[g]). */
  readonly order: Int32Array;
  readonly pos: Int32Array;
  readonly start: Int32Array;
  readonly end: Int32Array;
  /** Row of `rows`; -1 for the root, -2 for a run of identical siblings. */
  readonly raw: Int32Array;
  /** How many absorbed ancestors stand in the group's label, nearest last. */
  readonly absorbed: Csr;
  /** Number of members when all of them are identical groups, else 0. */
  readonly repeat: Int32Array;
  readonly depth: Int32Array;
  /** Nodes before each place in depth-first order that do work (are no inputs, weights or outputs). */
  readonly worksBefore: Int32Array;
}

/** Nodes of a group that do work. */
export const worksIn = (h: Hierarchy, group: number): number =>
  h.worksBefore[h.end[group]] - h.worksBefore[h.start[group]];

/** Row of the node whose inside a group is; -1 for every other group. */
export function insideRow(h: Hierarchy, group: number): number {
  const { inside } = h.stage.graph.groups;
  return inside && h.raw[group] >= 0 ? inside[h.rows.file[h.raw[group]]] : -1;
}

/**
 * A number that names a group in every stage of a file: that of its row (`GroupColumns.key`), of its module and which call of it,
 * and for a run of identical siblings minus that of the first.
 */
export function groupKey(h: Hierarchy, group: number): number {
  if (group === 0) return 0;
  if (h.raw[group] < 0) return -groupKey(h, h.members.values[h.members.offsets[group]] - h.nodes);
  const { file, call } = h.rows;
  const key = h.stage.graph.groups.key[file[h.raw[group]]];
  return call[h.raw[group]] === 0 ? key : keyWithin(key, "call", call[h.raw[group]]);
}

/** A group needs this many identical siblings before one is shown for all. */
const MIN_RUN = 3;

export function buildHierarchy(stage: StageGraph, grouping: string): Hierarchy {
  const home = homes(stage, grouping);
  const rows = withCalls(stage, home);
  const holder = rows.parent.slice();
  dissolveContainers(stage, home, holder, holder.length);

  // Groups in order of first use, parents before children; `seq` is the order of members.
  const dense = new Int32Array(rows.parent.length).fill(-1);
  const raw = new Ints(64);
  const up = new Ints(64); // parent of each dense group
  raw.push(-1);
  up.push(-1);
  const seq = new Ints(stage.count + 64);
  const path: number[] = [];
  const nodeParent = new Int32Array(stage.count);
  for (let n = 0; n < stage.count; n++) {
    let g = home[n];
    while (g >= 0 && dense[g] < 0) {
      path.push(g);
      g = holder[g];
    }
    let above = g < 0 ? 0 : dense[g];
    while (path.length > 0) {
      const r = path.pop() as number;
      dense[r] = raw.push(r);
      up.push(above);
      above = dense[r];
      seq.push(stage.count + above);
    }
    nodeParent[n] = home[n] < 0 ? 0 : dense[home[n]];
    seq.push(n);
  }
  const plain = absorb(stage.count, raw.take(), up.take(), nodeParent, seq);
  const tree = intervals(plain, stage.count);
  const hashes = hashGroups(stage, rows, plain.raw, plain.parent, tree);
  const runs = findRuns(stage, rows, plain.raw, tree.members, hashes, MIN_RUN);
  const repeat = new Int32Array(plain.raw.length + runs.added.length);
  repeat.set(runs.repeat);
  if (runs.added.length === 0) return finish(stage, grouping, rows, plain, tree, repeat);

  // Each new run is a group at the end of the numbering, between its parent and its members.
  const N = stage.count;
  const G = plain.raw.length;
  const parent = new Int32Array(N + G + runs.added.length);
  parent.set(plain.parent);
  const raws = new Int32Array(G + runs.added.length).fill(-2);
  raws.set(plain.raw);
  const order = new Ints(plain.seq.length + runs.added.length);
  const before = new Map<number, number>(); // first member of a run -> the run's item
  runs.added.forEach((run, k) => {
    const item = N + G + k;
    parent[item] = plain.parent[run[0]];
    for (const m of run) parent[m] = item;
    repeat[G + k] = run.length;
    before.set(run[0], item);
  });
  for (let i = 0; i < plain.seq.length; i++) {
    const run = before.get(plain.seq[i]);
    if (run !== undefined) order.push(run);
    order.push(plain.seq[i]);
  }
  const wider: Plain = { raw: raws, parent, seq: order.take(), absorbed: extend(plain.absorbed, raws.length) };
  return finish(stage, grouping, rows, wider, intervals(wider, N), repeat);
}

function withCalls(stage: StageGraph, home: Int32Array): GroupRows {
  const { rows, parent } = stage.graph.groups;
  const origin = splitCalls(stage, home, parent, rows);
  const file = new Int32Array(rows + origin.length);
  const call = new Int32Array(rows + origin.length);
  const parents = new Int32Array(rows + origin.length);
  parents.set(parent);
  for (let g = 0; g < rows; g++) file[g] = g;
  const calls = new Map<number, number>();
  origin.forEach((g, k) => {
    file[rows + k] = g;
    parents[rows + k] = parent[g];
    calls.set(g, (calls.get(g) ?? 1) + 1);
    call[rows + k] = calls.get(g) as number;
  });
  return { parent: parents, file, call };
}

interface Plain {
  readonly raw: Int32Array;
  readonly parent: Int32Array;
  /** All items but the root, in order of first use. */
  readonly seq: Int32Array;
  readonly absorbed: Csr;
}

export interface Intervals {
  readonly members: Csr;
  readonly order: Int32Array;
  readonly pos: Int32Array;
  readonly start: Int32Array;
  readonly end: Int32Array;
}

/** The group of each node in this grouping; constants move in with what uses them. */
function homes(stage: StageGraph, grouping: string): Int32Array {
  const { graph } = stage;
  const { grouping: kindOf, parent } = graph.groups;
  const home = new Int32Array(stage.count).fill(-1);
  const ofGrouping = new Uint8Array(graph.groups.rows);
  const depth = new Int32Array(graph.groups.rows);
  for (let g = 0; g < graph.groups.rows; g++) {
    ofGrouping[g] = kindOf[g] < 0 || graph.strings.at(kindOf[g]) === grouping ? 1 : 0;
    depth[g] = parent[g] >= 0 && parent[g] < g ? depth[parent[g]] + 1 : 0;
  }
  for (let n = 0; n < stage.count; n++) {
    const r = stage.row[n];
    if (r < 0) continue;
    for (let i = graph.groupsOf.offsets[r]; i < graph.groupsOf.offsets[r + 1]; i++) {
      const g = graph.groupsOf.values[i];
      if (g >= 0 && g < ofGrouping.length && ofGrouping[g]) home[n] = g;
    }
  }
  const common = (a: number, b: number): number => {
    while (a !== b) {
      if (a < 0 || b < 0) return -1;
      if (depth[a] >= depth[b]) a = parent[a];
      else b = parent[b];
    }
    return a;
  };
  for (let n = 0; n < stage.count; n++) {
    const r = stage.row[n];
    const from = stage.users.offsets[n];
    const to = stage.users.offsets[n + 1];
    // A tensor with more than 32 users is shared by the whole model; it stays where it is.
    if (r < 0 || to === from || to - from > 32 || stage.inputs.offsets[n + 1] > stage.inputs.offsets[n]) continue;
    // The state that training starts from has a place of its own.
    if (grouping === STEP && home[n] >= 0) continue;
    if (
      graph.strings.at(graph.kind[r]) !== "source" ||
      /^(input|placeholder)$/i.test(graph.strings.head(graph.op[r], 16))
    )
      continue;
    let g = home[stage.users.values[from]];
    let inside = common(g, home[n]) === home[n];
    for (let i = from + 1; i < to; i++) {
      const at = home[stage.users.values[i]];
      if (common(at, home[n]) === home[n]) inside = true;
      g = common(g, at);
    }
    // Down to the one group that uses it, or out to its users when a pass has left it alone in its module.
    if (inside ? g >= 0 && common(g, home[n]) === home[n] : true) home[n] = g;
  }
  return home;
}

/** Drops groups that hold one group and nothing else; the survivor remembers them for its label. */
function absorb(N: number, raw: Int32Array, up: Int32Array, nodeParent: Int32Array, seq: Ints): Plain {
  const G = raw.length;
  const size = new Int32Array(G);
  for (let n = 0; n < N; n++) size[nodeParent[n]] += 2; // a node counts two: it keeps its group
  for (let g = 1; g < G; g++) size[up[g]]++;
  const gone = (g: number): boolean => g > 0 && size[g] === 1;
  const number = new Int32Array(G).fill(-1);
  let kept = 0;
  for (let g = 0; g < G; g++) if (!gone(g)) number[g] = kept++;
  const parent = new Int32Array(N + kept);
  const raws = new Int32Array(kept);
  const lengths = new Int32Array(kept + 1);
  const names = new Ints(16);
  parent[N] = -1;
  raws[0] = -1;
  for (let g = 1; g < G; g++) {
    if (number[g] < 0) continue;
    const k = number[g];
    let p = up[g];
    const first = names.length;
    while (gone(p)) {
      names.push(raw[p]);
      p = up[p];
    }
    names.data.subarray(first, names.length).reverse();
    lengths[k + 1] = names.length - first;
    parent[N + k] = N + number[p];
    raws[k] = raw[g];
  }
  for (let n = 0; n < N; n++) parent[n] = N + number[nodeParent[n]];
  for (let k = 0; k < kept; k++) lengths[k + 1] += lengths[k];
  const out = new Ints(seq.length);
  for (let i = 0; i < seq.length; i++) {
    const item = seq.data[i];
    if (item < N) out.push(item);
    else if (number[item - N] >= 0) out.push(N + number[item - N]);
  }
  return { raw: raws, parent, seq: out.take(), absorbed: { offsets: lengths, values: names.take() } };
}

function extend(csr: Csr, rows: number): Csr {
  const offsets = new Int32Array(rows + 1).fill(csr.offsets[csr.offsets.length - 1]);
  offsets.set(csr.offsets);
  return { offsets, values: csr.values };
}

function intervals(plain: Plain, N: number): Intervals {
  const G = plain.raw.length;
  const keys = new Int32Array(plain.seq.length);
  for (let i = 0; i < keys.length; i++) keys[i] = plain.parent[plain.seq[i]] - N;
  const byParent = bucket(keys, G);
  const members: Csr = { offsets: byParent.offsets, values: byParent.values.map((i) => plain.seq[i]) };
  const order = new Int32Array(N);
  const pos = new Int32Array(N);
  const start = new Int32Array(G);
  const end = new Int32Array(G);
  const next = members.offsets.slice(0, G);
  const stack = [0];
  let at = 0;
  while (stack.length > 0) {
    const g = stack[stack.length - 1];
    if (next[g] === members.offsets[g + 1]) {
      end[g] = at;
      stack.pop();
      continue;
    }
    const item = members.values[next[g]++];
    if (item >= N) {
      start[item - N] = at;
      stack.push(item - N);
    } else {
      pos[item] = at;
      order[at++] = item;
    }
  }
  return { members, order, pos, start, end };
}

function finish(
  stage: StageGraph,
  grouping: string,
  rows: GroupRows,
  plain: Plain,
  tree: Intervals,
  repeat: Int32Array,
): Hierarchy {
  const N = stage.count;
  const G = plain.raw.length;
  const depth = new Int32Array(G);
  const todo = [0];
  while (todo.length > 0) {
    const g = todo.pop() as number;
    for (let i = tree.members.offsets[g]; i < tree.members.offsets[g + 1]; i++) {
      const item = tree.members.values[i];
      if (item < N) continue;
      depth[item - N] = depth[g] + 1;
      todo.push(item - N);
    }
  }
  const worksBefore = new Int32Array(N + 1);
  const isSource = new Map<number, boolean>();
  for (let p = 0; p < N; p++) {
    const r = stage.row[tree.order[p]];
    let idle = r < 0;
    if (r >= 0) {
      const kind = stage.graph.kind[r];
      let known = isSource.get(kind);
      if (known === undefined) isSource.set(kind, (known = stage.graph.strings.at(kind) === "source"));
      idle = known;
    }
    worksBefore[p + 1] = worksBefore[p] + (idle ? 0 : 1);
  }
  return {
    stage,
    grouping,
    rows,
    nodes: N,
    groups: G,
    worksBefore,
    parent: plain.parent,
    members: tree.members,
    order: tree.order,
    pos: tree.pos,
    start: tree.start,
    end: tree.end,
    raw: plain.raw,
    absorbed: plain.absorbed,
    repeat,
    depth,
  };
}
