/** The order inside each row: median sweeps that untangle edges, keeping the given order in ties. */

import type { Csr } from "../base/csr";
import type { Work } from "./flow";

/** Rows of cells (blocks and the bends of edges that pass through); edges join neighbouring rows only. */
export interface Rows {
  /** Cells below this number are blocks, the others bends. */
  readonly boxes: number;
  readonly cells: number;
  readonly rows: number;
  readonly row: Int32Array;
  /** Cells of each row in drawing order; sorted in place. */
  readonly list: Csr;
  readonly up: Csr;
  readonly down: Csr;
}

/** Up to this many cells neighbours are exchanged one by one after each sweep, and skips brought to one side. */
const CLOSE = 1200;

export function orderRows(g: Rows, work: Work): Int32Array {
  const at = new Int32Array(g.cells);
  for (let r = 0; r < g.rows; r++) number(g, r, at);
  const edges = g.up.values.length;
  let widest = 0;
  for (let r = 0; r < g.rows; r++) widest = Math.max(widest, g.list.offsets[r + 1] - g.list.offsets[r]);
  if (widest < 2) return at;
  // Small groups are what people look at closely: they get more sweeps, and the best one is kept.
  const close = g.cells <= CLOSE;
  const sweeps = g.cells < 400 ? 14 : close ? 8 : g.cells < 5000 ? 5 : 3;
  const keep = edges < 20000;
  let best = keep ? g.list.values.slice() : null;
  let least = keep ? crossings(g, at) : 0;
  const key = new Float64Array(g.cells);
  for (let s = 0; s < sweeps && !(keep && least === 0); s++) {
    const downwards = s % 2 === 0;
    if (downwards) for (let r = 1; r < g.rows; r++) sweepRow(g, r, g.up, at, key, s);
    else for (let r = g.rows - 2; r >= 0; r--) sweepRow(g, r, g.down, at, key, s);
    work.sweeps += g.cells + edges;
    if (!keep) continue;
    if (close) exchange(g, at);
    const now = crossings(g, at);
    if (now < least) {
      least = now;
      best = g.list.values.slice();
    }
  }
  if (best) {
    g.list.values.set(best);
    for (let r = 0; r < g.rows; r++) number(g, r, at);
  }
  mirror(g, at);
  if (close) skipsRight(g, at);
  return at;
}

/** A mirror image has the same crossings: the one that agrees with the given order is kept. */
function mirror(g: Rows, at: Int32Array): void {
  let agree = 0;
  for (let r = 0; r < g.rows; r++) {
    let first = -1;
    let last = -1;
    for (let i = g.list.offsets[r]; i < g.list.offsets[r + 1]; i++) {
      const v = g.list.values[i];
      if (v >= g.boxes) continue;
      if (first < 0) first = v;
      else agree += v > last ? 1 : -1;
      last = v;
    }
    if (last !== first) agree += last > first ? 1 : -1;
  }
  if (agree >= 0) return;
  for (let r = 0; r < g.rows; r++) {
    g.list.values.subarray(g.list.offsets[r], g.list.offsets[r + 1]).reverse();
    number(g, r, at);
  }
}

/** Exchanges neighbours in a row while that untangles something; a few rounds, since each can free another. */
function exchange(g: Rows, at: Int32Array): void {
  const cells = g.list.values;
  for (let round = 0, better = true; better && round < 6; round++) {
    better = false;
    for (let r = 0; r < g.rows; r++) {
      for (let i = g.list.offsets[r]; i + 1 < g.list.offsets[r + 1]; i++) {
        const [u, v] = [cells[i], cells[i + 1]];
        if (pairCrossings(g, u, v, at) <= pairCrossings(g, v, u, at)) continue;
        cells[i] = v;
        cells[i + 1] = u;
        at[u]++;
        at[v]--;
        better = true;
      }
    }
  }
}

/** Crossings of the edges of two neighbours, with u left of v. */
function pairCrossings(g: Rows, u: number, v: number, at: Int32Array): number {
  let sum = 0;
  for (const to of [g.up, g.down]) {
    const [a, b] = [to.offsets[u], to.offsets[u + 1]];
    const [c, d] = [to.offsets[v], to.offsets[v + 1]];
    // A box with hundreds of readers is no place to look for the last crossing.
    if ((b - a) * (d - c) > 900) continue;
    for (let i = a; i < b; i++) for (let j = c; j < d; j++) if (at[to.values[i]] > at[to.values[j]]) sum++;
  }
  return sum;
}

/**
 * Brings skip connections to the right of the block that they pass. A skip is a chain of bends from a cell
 * that also feeds the block; it is moved past the cells of the block where that costs no crossing.
 */
function skipsRight(g: Rows, at: Int32Array): void {
  let least = crossings(g, at);
  const rightmost = (v: number, r: number): number => {
    let out = -1;
    for (let i = g.down.offsets[v]; i < g.down.offsets[v + 1]; i++) {
      const w = g.down.values[i];
      if (w < g.boxes && g.row[w] === r && (out < 0 || at[w] > at[out])) out = w;
    }
    return out;
  };
  let tries = 200;
  for (let v = 0; v < g.boxes && tries > 0; v++) {
    for (let i = g.down.offsets[v]; i < g.down.offsets[v + 1] && tries > 0; i++) {
      const chain: number[] = [];
      const beside: number[] = [];
      let block = rightmost(v, g.row[v] + 1);
      for (let c = g.down.values[i]; c >= g.boxes && block >= 0; c = g.down.values[g.down.offsets[c]]) {
        if (at[c] > at[block]) break;
        chain.push(c);
        beside.push(block);
        block = rightmost(block, g.row[block] + 1);
      }
      if (chain.length === 0) continue;
      tries--;
      const before = chain.map((c) => g.list.values.slice(g.list.offsets[g.row[c]], g.list.offsets[g.row[c] + 1]));
      chain.forEach((c, k) => moveBehind(g, c, beside[k], at));
      const now = crossings(g, at);
      if (now <= least) least = now;
      else {
        chain.forEach((c, k) => {
          g.list.values.set(before[k], g.list.offsets[g.row[c]]);
          number(g, g.row[c], at);
        });
      }
    }
  }
}

function moveBehind(g: Rows, cell: number, other: number, at: Int32Array): void {
  const a = g.list.offsets[g.row[cell]];
  for (let i = a + at[cell]; i < a + at[other]; i++) g.list.values[i] = g.list.values[i + 1];
  g.list.values[a + at[other]] = cell;
  number(g, g.row[cell], at);
}

function number(g: Rows, r: number, at: Int32Array): void {
  for (let i = g.list.offsets[r]; i < g.list.offsets[r + 1]; i++) at[g.list.values[i]] = i - g.list.offsets[r];
}

function sweepRow(g: Rows, r: number, to: Csr, at: Int32Array, key: Float64Array, sweep: number): void {
  const a = g.list.offsets[r];
  const b = g.list.offsets[r + 1];
  if (b - a < 2) return;
  const cells = g.list.values;
  for (let i = a; i < b; i++) {
    const v = cells[i];
    const k = to.offsets[v + 1] - to.offsets[v];
    if (k === 0) {
      key[v] = i - a;
      continue;
    }
    let sum = 0;
    for (let j = to.offsets[v]; j < to.offsets[v + 1]; j++) sum += at[to.values[j]];
    key[v] = sum / k;
  }
  const part = Array.from(cells.subarray(a, b));
  const flip = sweep % 4 >= 2 ? -1 : 1; // ties fall the other way round in every second pair of sweeps
  part.sort((p, q) => key[p] - key[q] || (sweep < 2 ? at[p] - at[q] : flip * (at[p] - at[q])));
  for (let i = a; i < b; i++) cells[i] = part[i - a];
  number(g, r, at);
}

/** Crossings between all neighbouring rows, by a Fenwick tree: O(edges · log width). */
export function crossings(g: Rows, at: Int32Array): number {
  let total = 0;
  let tree = new Int32Array(16);
  for (let r = 1; r < g.rows; r++) {
    const width = g.list.offsets[r] - g.list.offsets[r - 1];
    if (width < 2) continue;
    if (tree.length < width + 1) tree = new Int32Array(width * 2);
    tree.fill(0, 0, width + 1);
    let seen = 0;
    for (let i = g.list.offsets[r]; i < g.list.offsets[r + 1]; i++) {
      const v = g.list.values[i];
      for (let j = g.up.offsets[v]; j < g.up.offsets[v + 1]; j++) {
        let below = 0;
        for (let k = at[g.up.values[j]] + 1; k > 0; k -= k & -k) below += tree[k];
        total += seen - below;
      }
      for (let j = g.up.offsets[v]; j < g.up.offsets[v + 1]; j++) {
        for (let k = at[g.up.values[j]] + 1; k <= width; k += k & -k) tree[k]++;
        seen++;
      }
    }
  }
  return total;
}
