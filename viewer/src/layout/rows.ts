/** Rows of cells with links between neighbours, and how tangled an order of them is. */

import type { Csr } from "../base/csr";

/** Rows of cells (blocks and the bends of edges that pass through); links join neighbouring rows only. */
export interface Rows {
  /** Cells below this number are blocks, the others bends. */
  readonly boxes: number;
  readonly cells: number;
  readonly rows: number;
  readonly row: Int32Array;
  /** Cells of each row in drawing order; sorted in place. */
  readonly list: Csr;
  /** 1 for rows whose order is given: the ports of a group whose parent asked for it. Ports of equal `place` may change theirs. */
  readonly fixed: Uint8Array;
  readonly place: Float32Array | null;
  readonly up: Links;
  readonly down: Links;
}

/** The links of each cell to the row above (below), from left to right along the cell. */
export interface Links extends Csr {
  /** Where along the cell the link ends, 0 to 1, and where along its neighbour. */
  readonly own: Float32Array;
  readonly far: Float32Array;
  /** Which of the neighbour's points it ends at; `points` says how many each cell has on its own side. */
  readonly slot: Int32Array;
  readonly points: Int32Array;
}

/** Writes down at which place of its row each cell stands. */
export function number(g: Rows, r: number, at: Int32Array): void {
  for (let i = g.list.offsets[r]; i < g.list.offsets[r + 1]; i++) at[g.list.values[i]] = i - g.list.offsets[r];
}

/** Crossings between neighbouring rows `first` to `last`, by a Fenwick tree: O(links · log points). */
export function crossings(g: Rows, first = 0, last = g.rows - 1): number {
  let total = 0;
  let tree = new Int32Array(16);
  const base = new Int32Array(g.cells);
  const { up, down } = g;
  for (let r = Math.max(1, first + 1); r <= last; r++) {
    let width = 0;
    for (let i = g.list.offsets[r - 1]; i < g.list.offsets[r]; i++) {
      const v = g.list.values[i];
      base[v] = width;
      width += down.points[v];
    }
    if (width < 2) continue;
    if (tree.length < width + 1) tree = new Int32Array(width * 2);
    tree.fill(0, 0, width + 1);
    let seen = 0;
    for (let i = g.list.offsets[r]; i < g.list.offsets[r + 1]; i++) {
      const v = g.list.values[i];
      // Links that end at one point do not cross each other: all are looked up before one is entered.
      for (let j = up.offsets[v]; j < up.offsets[v + 1]; ) {
        let end = j;
        for (; end < up.offsets[v + 1] && up.own[end] === up.own[j]; end++) {
          let below = 0;
          for (let k = base[up.values[end]] + up.slot[end] + 1; k > 0; k -= k & -k) below += tree[k];
          total += seen - below;
        }
        for (; j < end; j++) {
          for (let k = base[up.values[j]] + up.slot[j] + 1; k <= width; k += k & -k) tree[k]++;
          seen++;
        }
      }
    }
  }
  return total;
}

/** Crossings of the links of two neighbours in a row, with u left of v. */
export function pairCrossings(g: Rows, u: number, v: number, at: Int32Array): number {
  let sum = 0;
  for (let side = 0; side < 2; side++) {
    const to = side === 0 ? g.up : g.down;
    const [a, b] = [to.offsets[u], to.offsets[u + 1]];
    const [c, d] = [to.offsets[v], to.offsets[v + 1]];
    // A box with hundreds of readers is no place to look for the last crossing.
    if ((b - a) * (d - c) > 900) continue;
    for (let i = a; i < b; i++) {
      const place = at[to.values[i]] + to.far[i];
      for (let j = c; j < d; j++) if (place > at[to.values[j]] + to.far[j]) sum++;
    }
  }
  return sum;
}

/** Edges that skip the row below a cell at the left of the blocks that the cell feeds there. */
export function leftSkips(g: Rows, at: Int32Array, first = 0, last = g.rows - 1): number {
  let out = 0;
  for (let i = g.list.offsets[first]; i < g.list.offsets[last + 1]; i++) {
    const v = g.list.values[i];
    if (v >= g.boxes) continue;
    let box = Infinity;
    for (let k = g.down.offsets[v]; k < g.down.offsets[v + 1]; k++)
      if (g.down.values[k] < g.boxes) box = Math.min(box, at[g.down.values[k]]);
    if (box === Infinity) continue;
    for (let k = g.down.offsets[v]; k < g.down.offsets[v + 1]; k++)
      if (g.down.values[k] >= g.boxes && at[g.down.values[k]] < box) out++;
  }
  return out;
}

/** Whether a box hangs on nothing: what it makes ready is a side feed of its reader, as a constant is. */
export const isFeed = (g: Rows, v: number): boolean =>
  v < g.boxes && g.row[v] > 0 && g.up.offsets[v] === g.up.offsets[v + 1];

/** Side feeds that stand at the right of what their reader hangs on. */
export function rightFeeds(g: Rows, at: Int32Array, first = 0, last = g.rows - 1): number {
  let out = 0;
  for (let i = g.list.offsets[first]; i < g.list.offsets[last + 1]; i++) {
    const v = g.list.values[i];
    if (!isFeed(g, v)) continue;
    for (let k = g.down.offsets[v]; k < g.down.offsets[v + 1]; k++) {
      const reader = g.down.values[k];
      let beside = false;
      for (let j = g.up.offsets[reader]; j < g.up.offsets[reader + 1]; j++)
        beside ||= at[g.up.values[j]] < at[v] && !isFeed(g, g.up.values[j]);
      if (beside) out++;
    }
  }
  return out;
}

/** Neighbours that stand against the order in which they were given. */
export function disorder(g: Rows, first = 0, last = g.rows - 1): number {
  let out = 0;
  for (let r = first; r <= last; r++) {
    let before = -1;
    for (let i = g.list.offsets[r]; i < g.list.offsets[r + 1]; i++) {
      const v = g.list.values[i];
      if (v >= g.boxes) continue;
      if (v < before) out++;
      before = v;
    }
  }
  return out;
}

/** How far a drawing is from what it should be: crossings, and skips on the wrong side for next to nothing. */
export function tangled(g: Rows): number {
  const at = new Int32Array(g.cells);
  for (let r = 0; r < g.rows; r++) number(g, r, at);
  return crossings(g) + leftSkips(g, at) / 1000;
}
