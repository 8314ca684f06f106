/** Repeated subgraphs of a graph without modules: found by structure and attributes, as groups like any other. */

import { finish, mix } from "../base/hash";
import type { Graph } from "./graph";
import { addedColumns, addedGroups } from "./made";
import type { StageGraph } from "./stage";

/** The grouping that these groups belong to. */
export const BLOCK = "block";

/** Fewer ops are read as they stand. */
const LEAST_OPS = 60;
/** A block has at least so many ops. */
const LEAST_BLOCK = 3;
/** Periods tried: the commonest distances between equal units. Each costs one look at every unit. */
const PERIODS = 24;

/** Ops in a row with one tensor in and one out; a single op, or what a residual connection goes around. */
interface Units {
  /** Unit u holds works[start[u] .. start[u + 1]). */
  readonly works: Int32Array;
  readonly start: Int32Array;
  readonly count: number;
}

interface Run {
  readonly first: number; // unit
  readonly period: number;
  readonly times: number;
}

/** The stage's graph with groups for its repeated blocks; null when it has none. Linear in nodes and edges. */
export function withBlocks(stage: StageGraph): Graph | null {
  const units = cutUnits(stage);
  if (!units) return null;
  const hashes = hashUnits(stage, units);
  const runs = findRepeats(units, hashes);
  return groupsFor(stage, units, runs);
}

/** Cuts where a single tensor is alive; tensors that a third of the graph passes by (masks, positions) do not count. */
function cutUnits(stage: StageGraph): Units | null {
  const { graph, count } = stage;
  const index = new Int32Array(count).fill(-1);
  const works: number[] = [];
  for (let n = 0; n < count; n++) {
    const r = stage.row[n];
    if (r >= 0 && graph.strings.at(graph.kind[r]) !== "source") index[n] = works.push(n) - 1;
  }
  const N = works.length;
  if (N < LEAST_OPS) return null;
  const long = Math.max(64, N / 3);
  const alive = new Int32Array(N + 1);
  const last = new Int32Array(stage.tensorStart[count] + 1).fill(-1);
  for (const n of works) {
    for (let i = stage.inputs.offsets[n]; i < stage.inputs.offsets[n + 1]; i++) {
      if (stage.inputs.values[i] >= 0) last[stage.inputTensor[i]] = index[n];
    }
  }
  // What the model is given is alive from the start, as what a block before would have made.
  for (let n = 0; n < count; n++) {
    if (!isGiven(stage, n)) continue;
    const until = last[stage.tensorStart[n]];
    if (until <= 0 || until > long) continue;
    alive[0]++;
    alive[until]--;
  }
  for (const n of works) {
    for (let t = stage.tensorStart[n]; t < stage.tensorStart[n + 1]; t++) {
      if (last[t] < 0 || last[t] - index[n] > long) continue;
      alive[index[n]]++;
      alive[last[t]]--;
    }
  }
  const start = [0];
  for (let i = 0, now = 0; i < N; i++) {
    now += alive[i];
    if (now <= 1) start.push(i + 1);
  }
  if (start[start.length - 1] !== N) start.push(N);
  return { works: Int32Array.from(works), start: Int32Array.from(start), count: start.length - 1 };
}

/** An input of the model, not a weight. */
function isGiven(stage: StageGraph, node: number): boolean {
  const r = stage.row[node];
  return (
    r >= 0 &&
    (stage.isInput[node] === 1 || /^(input|placeholder)$/i.test(stage.graph.strings.head(stage.graph.op[r], 16)))
  );
}

/** Names of weights differ between layers and say nothing; numbers, switches and plain words do. */
const TELLING = /^(?:[\d\s,.()[\]eE+-]*|true|false|none|[a-z_]{1,24})$/i;

function attributeHashes(graph: Graph): (row: number) => number {
  const keys = graph.coldList("attr_keys");
  const values = graph.coldList("attr_values");
  const telling = new Map<number, boolean>();
  return (row) => {
    let h = 0;
    for (let i = keys.offsets[row]; i < keys.offsets[row + 1]; i++) {
      const v = values.values[i];
      let known = telling.get(v);
      if (known === undefined) telling.set(v, (known = TELLING.test(graph.strings.head(v, 60))));
      if (known) h += finish(mix(keys.values[i], v));
    }
    return h;
  };
}

function hashUnits(stage: StageGraph, units: Units): { readonly a: Int32Array; readonly b: Int32Array } {
  const { graph } = stage;
  const attributes = attributeHashes(graph);
  const place = new Int32Array(stage.count).fill(-1);
  const a = new Int32Array(units.count);
  const b = new Int32Array(units.count);
  for (let u = 0; u < units.count; u++) {
    const from = units.start[u];
    let x = mix(0x1234567, units.start[u + 1] - from);
    for (let k = from; k < units.start[u + 1]; k++) place[units.works[k]] = k;
    for (let k = from; k < units.start[u + 1]; k++) {
      const n = units.works[k];
      const r = stage.row[n];
      x = mix(mix(x, graph.op[r]), attributes(r));
      for (let i = graph.outputs.offsets[r]; i < graph.outputs.offsets[r + 1]; i++) x = mix(x, graph.outputs.values[i]);
      for (let i = stage.inputs.offsets[n]; i < stage.inputs.offsets[n + 1]; i++) {
        const src = stage.inputs.values[i];
        // An operand by its place in the unit; from outside it is told from a weight, no more.
        const inside = src >= 0 && place[src] >= from;
        x = mix(
          x,
          inside
            ? place[src] - from + 2
            : src >= 0 && (stage.inputs.offsets[src + 1] > stage.inputs.offsets[src] || isGiven(stage, src))
              ? 1
              : 0,
        );
      }
    }
    a[u] = finish(x);
    b[u] = finish(mix(x, 0x5f356495));
  }
  return { a, b };
}

/** Runs of units that repeat one after the other, those that cover most first; none overlap. */
function findRepeats(units: Units, { a, b }: { readonly a: Int32Array; readonly b: Int32Array }): Run[] {
  const U = units.count;
  const same = (p: number, q: number): boolean => a[p] === a[q] && b[p] === b[q];
  const ops = (from: number, to: number): number => units.start[to] - units.start[from];
  // Distances from each unit to the next equal one: the period of a layer is among the commonest.
  const seen = new Map<number, number>();
  const votes = new Map<number, number>();
  for (let u = U - 1; u >= 0; u--) {
    const next = seen.get(a[u]);
    if (next !== undefined) votes.set(next - u, (votes.get(next - u) ?? 0) + ops(u, u + 1));
    seen.set(a[u], u);
  }
  const periods = [...votes.keys()]
    .sort((p, q) => (votes.get(q) as number) - (votes.get(p) as number) || p - q)
    .slice(0, PERIODS);
  const found: Run[] = [];
  for (const p of periods) {
    for (let u = 0; u + p < U; ) {
      let end = u;
      while (end + p < U && same(end, end + p)) end++;
      const times = Math.floor((end - u) / p) + 1;
      if (end - u >= p && times >= 2 && ops(u, u + p) >= LEAST_BLOCK) {
        // What is left over may lie at either end: a block begins with its largest part.
        let first = u;
        for (let k = u; k <= u + ((end - u) % p); k++) if (ops(k, k + 1) > ops(first, first + 1)) first = k;
        found.push({ first, period: p, times });
      }
      u = Math.max(end, u) + 1;
    }
  }
  const cover = (r: Run): number => ops(r.first, r.first + r.period * r.times);
  // Of two that cover the same, the shorter period is the block and the longer one two of them.
  found.sort((p, q) => cover(q) - cover(p) || p.period - q.period || p.first - q.first);
  const taken = new Uint8Array(U);
  const out: Run[] = [];
  for (const r of found) {
    let { first, times } = r;
    while (times >= 2 && taken[first]) {
      first += r.period;
      times--;
    }
    while (times >= 2 && taken[first + r.period * times - 1]) times--;
    if (times < 2 || taken.subarray(first, first + r.period * times).includes(1)) continue;
    taken.fill(1, first, first + r.period * times);
    out.push({ first, period: r.period, times });
  }
  return out.sort((p, q) => p.first - q.first);
}

/** What a row of ops is for, in a word. */
function nameOf(stage: StageGraph, units: Units, from: number, to: number): string {
  const { graph } = stage;
  let product = false;
  for (let k = units.start[from]; k < units.start[to]; k++) {
    const r = stage.row[units.works[k]];
    const kind = graph.strings.at(graph.kind[r]);
    if (kind === "conv") return "conv block";
    if (/softmax|attention/i.test(graph.strings.head(graph.op[r], 60))) return "attention";
    if (kind === "matmul") product = true;
  }
  return product ? "feed forward" : "block";
}

/** Units that make one block. */
interface Piece {
  readonly from: number;
  readonly to: number;
  /** What it is for: blocks of a run and one beside them that does the same are of one stage. */
  readonly does: string;
  readonly name: string;
  /** The run that it is a member of, -1 for none. */
  readonly run: number;
}

/** Blocks in their order: the members of runs, and units of several ops that stand alone. */
function piecesOf(stage: StageGraph, units: Units, runs: readonly Run[]): Piece[] {
  const { graph } = stage;
  const out: Piece[] = [];
  const size = (u: number): number => units.start[u + 1] - units.start[u];
  const rowOf = (u: number): number => stage.row[units.works[units.start[u]]];
  let at = 0;
  const alone = (to: number): void => {
    while (at < to) {
      const from = at++;
      if (size(from) < LEAST_BLOCK) continue;
      // The activation behind a sum belongs to the block, as it does in those that repeat.
      const activated = at < to && size(at) === 1 && graph.strings.at(graph.kind[rowOf(at)]) === "elementwise";
      if (activated) at++;
      const does = nameOf(stage, units, from, at);
      out.push({ from, to: at, does, name: does, run: -1 });
    }
  };
  runs.forEach(({ first, period, times }, run) => {
    alone(first);
    for (let t = 0; t < times; t++, at += period) {
      const does = nameOf(stage, units, at, at + period);
      // One unit is named for what it does; a block of several holds them by their names.
      const name = period === 1 || does === "conv block" ? does : "block";
      out.push({ from: at, to: at + period, does, name, run });
    }
  });
  alone(units.count);
  return out;
}

/** The stage of each piece, -1 for none: neighbours that do the same and make tensors of one type, as between two poolings of a ResNet. */
function stagesOf(stage: StageGraph, units: Units, pieces: readonly Piece[]): Int32Array {
  const { graph } = stage;
  const typeOf = (p: Piece): number => {
    const r = stage.row[units.works[units.start[p.to] - 1]];
    return graph.outputs.values[graph.outputs.offsets[r]] ?? -1;
  };
  const out = new Int32Array(pieces.length).fill(-1);
  const types = new Set<number>();
  let stages = 0;
  for (let k = 0; k < pieces.length; ) {
    let end = k + 1;
    while (
      end < pieces.length &&
      pieces[end].from === pieces[end - 1].to &&
      pieces[end].does === pieces[k].does &&
      typeOf(pieces[end]) === typeOf(pieces[k])
    )
      end++;
    // What is all alike is one run; around it a group would say nothing.
    const alike = pieces[k].run >= 0 && pieces[end - 1].run === pieces[k].run;
    if (end - k > 1 && !alike) {
      out.fill(stages++, k, end);
      types.add(typeOf(pieces[k]));
    }
    k = end;
  }
  return types.size > 1 ? out : out.fill(-1);
}

function groupsFor(stage: StageGraph, units: Units, runs: readonly Run[]): Graph | null {
  const { graph } = stage;
  const pieces = piecesOf(stage, units, runs);
  if (pieces.length === 0) return null;
  const stages = stagesOf(stage, units, pieces);
  const name: number[] = [];
  const parent: number[] = [];
  const add = (text: string, holder: number): number => {
    parent.push(holder);
    return graph.groups.rows + name.push(graph.strings.intern(text)) - 1;
  };
  const home = new Int32Array(graph.rows).fill(-1);
  const size = (u: number): number => units.start[u + 1] - units.start[u];
  const ops = (p: Piece): number => units.start[p.to] - units.start[p.from];
  let holder = -1;
  pieces.forEach((p, k) => {
    if (stages[k] < 0) holder = -1;
    else if (k === 0 || stages[k] !== stages[k - 1]) holder = add(`stage.${stages[k]}`, -1);
    const member = add(`${p.name}.${k}`, holder);
    for (let u = p.from; u < p.to; u++) {
      // A part that is nearly the whole block is the block.
      const own = p.to - p.from > 1 && size(u) >= LEAST_BLOCK && size(u) < ops(p) - 1;
      const group = own ? add(nameOf(stage, units, u, u + 1), member) : member;
      for (let w = units.start[u]; w < units.start[u + 1]; w++) home[stage.row[units.works[w]]] = group;
    }
  });
  return graph.joined([], {
    ...graph,
    groups: addedColumns(graph, graph.strings.intern(BLOCK), parent, name),
    groupsOf: addedGroups(graph, home),
  });
}
