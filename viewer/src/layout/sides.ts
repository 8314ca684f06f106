/** Skip connections on the right of the block that they pass, side feeds on the left, where that costs no crossing. */

import { crossings, isFeed, number, type Rows } from "./rows";

/** A skip is a chain of bends from a cell that also feeds the block; it is moved past the cells of the block. */
export function skipsRight(g: Rows, at: Int32Array): void {
  const rightmost = (v: number, r: number): number => {
    let out = -1;
    for (let i = g.down.offsets[v]; i < g.down.offsets[v + 1]; i++) {
      const w = g.down.values[i];
      if (w < g.boxes && g.row[w] === r && (out < 0 || at[w] > at[out])) out = w;
    }
    return out;
  };
  let tries = TRIES;
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
      tryBeside(g, chain, beside, at);
    }
  }
}

/** A feed is a box that hangs on nothing, with what it alone leads to; it is moved before the cells that its reader follows. */
export function feedsLeft(g: Rows, at: Int32Array): void {
  let tries = TRIES;
  const leftmost = (v: number, but: number): number => {
    let out = -1;
    for (let i = g.up.offsets[v]; i < g.up.offsets[v + 1]; i++) {
      const u = g.up.values[i];
      if (u !== but && !isFeed(g, u) && (out < 0 || at[u] < at[out])) out = u;
    }
    return out;
  };
  const only = (of: Rows["up"], v: number): boolean => of.offsets[v + 1] - of.offsets[v] === 1;
  for (let v = 0; v < g.boxes && tries > 0; v++) {
    if (!isFeed(g, v) || !only(g.down, v)) continue;
    const chain = [v];
    let reader = g.down.values[g.down.offsets[v]];
    while (only(g.up, reader) && only(g.down, reader)) {
      chain.unshift(reader);
      reader = g.down.values[g.down.offsets[reader]];
    }
    const beside: number[] = [];
    for (let k = 0, u = leftmost(reader, chain[0]); k < chain.length && u >= 0; k++, u = leftmost(u, -1))
      beside.push(u);
    if (beside.length < chain.length || chain.every((c, k) => at[c] < at[beside[k]])) continue;
    tries--;
    tryBeside(g, chain, beside, at);
  }
}

/** Moves for one drawing at most: each counts the crossings of its rows. */
const TRIES = 200;

/** Moves each cell of a chain to the other side of the cell that is named beside it; taken back where edges cross then. */
function tryBeside(g: Rows, chain: readonly number[], beside: readonly number[], at: Int32Array): void {
  const rows = chain.map((c) => g.row[c]);
  if (rows.some((r) => g.fixed[r])) return;
  const [from, to] = [Math.min(...rows) - 1, Math.min(g.rows - 1, Math.max(...rows) + 1)];
  const least = crossings(g, from, to);
  const before = rows.map((r) => g.list.values.slice(g.list.offsets[r], g.list.offsets[r + 1]));
  chain.forEach((c, k) => moveBeside(g, c, beside[k], at));
  if (crossings(g, from, to) <= least) return;
  rows.forEach((r, k) => {
    g.list.values.set(before[k], g.list.offsets[r]);
    number(g, r, at);
  });
}

function moveBeside(g: Rows, cell: number, other: number, at: Int32Array): void {
  const a = g.list.offsets[g.row[cell]];
  const step = at[cell] < at[other] ? 1 : -1;
  for (let i = at[cell]; i !== at[other]; i += step) g.list.values[a + i] = g.list.values[a + i + step];
  g.list.values[a + at[other]] = cell;
  number(g, g.row[cell], at);
}
