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
  /** 1 for rows whose order is given: the ports of a group whose parent asked for it. */
  readonly fixed: Uint8Array;
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

/** Crossings between all neighbouring rows, by a Fenwick tree: O(links · log points). */
export function crossings(g: Rows): number {
  let total = 0;
  let tree = new Int32Array(16);
  const base = new Int32Array(g.cells);
  const { up, down } = g;
  for (let r = 1; r < g.rows; r++) {
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
export function leftSkips(g: Rows, at: Int32Array): number {
  let out = 0;
  for (let v = 0; v < g.boxes; v++) {
    let first = Infinity;
    for (let i = g.down.offsets[v]; i < g.down.offsets[v + 1]; i++)
      if (g.down.values[i] < g.boxes) first = Math.min(first, at[g.down.values[i]]);
    if (first === Infinity) continue;
    for (let i = g.down.offsets[v]; i < g.down.offsets[v + 1]; i++)
      if (g.down.values[i] >= g.boxes && at[g.down.values[i]] < first) out++;
  }
  return out;
}

/** Neighbours that stand against the order in which they were given. */
export function disorder(g: Rows): number {
  let out = 0;
  for (let r = 0; r < g.rows; r++) {
    let last = -1;
    for (let i = g.list.offsets[r]; i < g.list.offsets[r + 1]; i++) {
      const v = g.list.values[i];
      if (v >= g.boxes) continue;
      if (v < last) out++;
      last = v;
    }
  }
  return out;
}
