/** The order inside each row: sweeps that untangle edges, from several starts, keeping the given order in ties. */

import type { Work } from "./flow";
import { crossings, disorder, leftSkips, number, pairCrossings, rightFeeds, type Links, type Rows } from "./rows";
import { feedsLeft, skipsRight } from "./sides";

/** Up to this many cells neighbours are exchanged one by one after each sweep, and skips brought to one side. */
const CLOSE = 1200;
/** A row up to this wide tries every place for each of its cells. */
const SIFTED = 60;
/** Cells, links and pairs of neighbours that all starts of one drawing may visit. */
const BUDGET = 600_000;
/** Cells are sifted in every so many sweeps: each looks at all pairs in a row. */
const SIFT_EVERY = 4;
const STARTS = 40;
/** Starts in a row that may bring nothing. */
const PATIENCE = 12;
/** Looking at a pair of cells, in links. */
const PAIR = 4;

interface Found {
  cost: number;
  values: Int32Array;
}

/** With `careful`, small drawings get several starts and the best of them. */
export function orderRows(g: Rows, work: Work, careful: boolean): Int32Array {
  const at = new Int32Array(g.cells);
  for (let r = 0; r < g.rows; r++) number(g, r, at);
  const links = g.up.values.length;
  let widest = 0;
  for (let r = 0; r < g.rows; r++) widest = Math.max(widest, g.list.offsets[r + 1] - g.list.offsets[r]);
  if (widest < 2) return at;
  if (links >= 20000) {
    for (let s = 0; s < 3; s++) sweep(g, at, s, 0, work);
    return at;
  }
  const close = g.cells <= CLOSE;
  const sweeps = g.cells < 400 ? 14 : close ? 8 : g.cells < 5000 ? 5 : 3;
  let pairs = 0;
  for (let r = 0; r < g.rows; r++) {
    const n = g.list.offsets[r + 1] - g.list.offsets[r];
    if (n <= SIFTED) pairs += n * n;
  }
  const visits = sweeps * (g.cells + links) + Math.ceil(sweeps / SIFT_EVERY) * PAIR * pairs;
  const starts = close && careful ? Math.max(1, Math.min(STARTS, Math.floor(BUDGET / visits))) : 1;
  const given = g.list.values.slice();
  const best: Found = { cost: costOf(g, at), values: given.slice() };
  const random = randomFrom(g.cells);
  for (let start = 0, last = 0; start < starts && start - last <= PATIENCE && best.cost >= ORDER; start++) {
    g.list.values.set(given);
    if (start > 1) shuffle(g, random);
    for (let r = 0; r < g.rows; r++) number(g, r, at);
    for (let s = 0; s < sweeps && best.cost >= ORDER; s++) {
      sweep(g, at, s, start & 1, work);
      if (close) {
        exchange(g, at);
        if (careful && s % SIFT_EVERY === SIFT_EVERY - 1) sift(g, at);
      }
      const cost = costOf(g, at);
      if (cost < best.cost) {
        last = start;
        best.cost = cost;
        best.values = g.list.values.slice();
      }
    }
  }
  g.list.values.set(best.values);
  for (let r = 0; r < g.rows; r++) number(g, r, at);
  mirror(g, at);
  if (close) {
    feedsLeft(g, at);
    skipsRight(g, at);
  }
  return at;
}

/** A crossing outweighs any skip or feed on the wrong side, and that any two neighbours out of order. */
const ORDER = 1e4;
const CROSSING = 1e8;

/** What the order of rows `first` to `last` costs, with the edges into and out of them. */
function costOf(g: Rows, at: Int32Array, first = 0, last = g.rows - 1): number {
  const [above, below] = [Math.max(0, first - 1), Math.min(g.rows - 1, last + 1)];
  const sides = leftSkips(g, at, above, last) + rightFeeds(g, at, first, last);
  return (
    crossings(g, above, below) * CROSSING + Math.min(sides, 9999) * ORDER + Math.min(disorder(g, first, last), 9999)
  );
}

/**
 * What stands between two rows of one cell can be turned around without a new crossing: the image with its skips on the
 * right, its feeds on the left and in the given order is kept. Each row is in one such piece: linear.
 */
function mirror(g: Rows, at: Int32Array): void {
  const turn = (from: number, to: number): void => {
    for (let r = from; r <= to; r++) {
      g.list.values.subarray(g.list.offsets[r], g.list.offsets[r + 1]).reverse();
      number(g, r, at);
    }
  };
  const wide = (r: number): boolean => g.list.offsets[r + 1] - g.list.offsets[r] > 1;
  for (let from = 0; from < g.rows; from++) {
    if (!wide(from)) continue;
    let to = from;
    while (to + 1 < g.rows && wide(to + 1)) to++;
    if (!g.fixed.subarray(from, to + 1).includes(1)) {
      const before = costOf(g, at, from, to);
      turn(from, to);
      if (costOf(g, at, from, to) >= before) turn(from, to);
    }
    from = to;
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
        if (g.fixed[r] && g.place && g.place[u] !== g.place[v]) continue;
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

/** Takes each cell to the place of its row where its links cross least. */
function sift(g: Rows, at: Int32Array): void {
  const cells = g.list.values;
  for (let r = 0; r < g.rows; r++) {
    const a = g.list.offsets[r];
    const n = g.list.offsets[r + 1] - a;
    if (g.fixed[r] || n < 3 || n > SIFTED) continue;
    for (const v of cells.slice(a, a + n)) {
      let best = at[v];
      let least = 0;
      for (const step of [-1, 1]) {
        let gain = 0;
        for (let i = at[v] + step; i >= 0 && i < n; i += step) {
          const u = cells[a + i];
          const [left, right] = [pairCrossings(g, u, v, at), pairCrossings(g, v, u, at)];
          gain += step < 0 ? right - left : left - right;
          if (gain >= least) continue;
          least = gain;
          best = i;
        }
      }
      if (best === at[v]) continue;
      const step = best > at[v] ? 1 : -1;
      for (let i = at[v]; i !== best; i += step) cells[a + i] = cells[a + i + step];
      cells[a + best] = v;
      number(g, r, at);
    }
  }
}

function sweep(g: Rows, at: Int32Array, s: number, upFirst: number, work: Work): void {
  if ((s + upFirst) % 2 === 0) for (let r = 1; r < g.rows; r++) sweepRow(g, r, g.up, at, s);
  else for (let r = g.rows - 2; r >= 0; r--) sweepRow(g, r, g.down, at, s);
  work.sweeps += g.cells + g.up.values.length;
}

function sweepRow(g: Rows, r: number, to: Links, at: Int32Array, s: number): void {
  const a = g.list.offsets[r];
  const n = g.list.offsets[r + 1] - a;
  if (n < 2) return;
  const cells = g.list.values;
  const key = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const v = cells[a + i];
    const k = to.offsets[v + 1] - to.offsets[v];
    let sum = k === 0 ? i + 0.5 : 0;
    for (let j = to.offsets[v]; j < to.offsets[v + 1]; j++) sum += at[to.values[j]] + to.far[j] - to.own[j] + 0.5;
    key[i] = k > 1 ? sum / k : sum;
  }
  const flip = s % 4 >= 2 ? -1 : 1; // ties fall the other way round in every second pair of sweeps
  const order = Array.from(key.keys());
  const held = g.fixed[r] ? g.place : null;
  const asked = (p: number, q: number): number => (held ? held[cells[a + p]] - held[cells[a + q]] : 0);
  order.sort((p, q) => asked(p, q) || key[p] - key[q] || flip * (p - q));
  const before = cells.slice(a, a + n);
  for (let i = 0; i < n; i++) cells[a + i] = before[order[i]];
  number(g, r, at);
}

function shuffle(g: Rows, random: () => number): void {
  for (let r = 0; r < g.rows; r++) {
    if (g.fixed[r]) continue;
    for (let i = g.list.offsets[r + 1] - 1; i > g.list.offsets[r]; i--) {
      const j = g.list.offsets[r] + Math.floor(random() * (i - g.list.offsets[r] + 1));
      const v = g.list.values[i];
      g.list.values[i] = g.list.values[j];
      g.list.values[j] = v;
    }
  }
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
