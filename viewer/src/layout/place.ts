/** X inside the rows: each row as near to its neighbours as order and spacing let it be. */

import type { Csr } from "../base/csr";
import type { Rows } from "./rows";

/**
 * What pulls on a cell: one entry for each edge end, seen from the cell. `wish` is the neighbour's
 * offset minus the own one; straight bends pull hard, so that passing edges stay straight.
 */
export interface Pulls {
  readonly cell: Csr; // neighbour cells, row by row like Rows.up / Rows.down
  readonly wish: Float32Array;
  /** The same for every port, far from its block's middle or not: where the edge would be straight. */
  readonly run: Float32Array;
  readonly weight: Float32Array;
}

/** What stands between two neighbours: an edge may pass nearer to a box than another box. */
export const between = (gap: Float32Array, u: number, v: number): number => Math.min(gap[u], gap[v]);

/**
 * Left and right reach of each cell from its axis. Alternating sweeps; in each row the sum of
 * weight · (x - wish)² is minimised under x[i + 1] - x[i] >= reach by pooling neighbours that
 * collide (isotonic regression): linear, and never an overlap.
 */
export function placeRows(
  g: Rows,
  left: Float32Array,
  right: Float32Array,
  gap: Float32Array,
  up: Pulls,
  down: Pulls,
): Float64Array {
  const x = new Float64Array(g.cells);
  for (let r = 0; r < g.rows; r++) {
    let at = 0;
    const a = g.list.offsets[r];
    const b = g.list.offsets[r + 1];
    for (let i = a; i < b; i++) {
      const v = g.list.values[i];
      if (i > a) at += between(gap, g.list.values[i - 1], v);
      x[v] = at + left[v];
      at = x[v] + right[v];
    }
    const middle = at / 2;
    for (let i = a; i < b; i++) x[g.list.values[i]] -= middle;
  }
  let widest = 1;
  for (let r = 0; r < g.rows; r++) widest = Math.max(widest, g.list.offsets[r + 1] - g.list.offsets[r]);
  const row = new RowSolver(widest);
  const sweeps = g.cells < 2000 ? 8 : 5;
  for (let s = 0; s < sweeps; s++) {
    const last = s >= sweeps - 2;
    if (s % 2 === 0) for (let r = 0; r < g.rows; r++) row.solve(g, r, x, left, right, gap, up, last ? down : null);
    else for (let r = g.rows - 1; r >= 0; r--) row.solve(g, r, x, left, right, gap, down, last ? up : null);
  }
  for (let r = 1; r < g.rows; r++) straighten(g, r, x, left, right, gap, up, false);
  for (let r = g.rows - 2; r >= 0; r--) straighten(g, r, x, left, right, gap, down, true);
  unslant(g, x, up);
  return x;
}

/**
 * Brings rows that hold a single cell under each other, with all that follows: merges pull a little to
 * one side, and over a hundred layers a column would lean out of its place. Only the edges into such a
 * row change their slope.
 */
function unslant(g: Rows, x: Float64Array, up: Pulls): void {
  let anchor = NaN;
  let shift = 0;
  for (let r = 0; r < g.rows; r++) {
    const a = g.list.offsets[r];
    const b = g.list.offsets[r + 1];
    if (b - a === 1) {
      const v = g.list.values[a];
      let strong = 0;
      for (let k = up.cell.offsets[v]; k < up.cell.offsets[v + 1]; k++) if (up.weight[k] >= 1) strong++;
      // What hangs on one neighbour stays under it, port under port; merges come back into line.
      if (strong > 1 && !Number.isNaN(anchor)) shift = anchor - x[v];
      anchor = x[v] + shift;
    }
    for (let i = a; i < b; i++) x[g.list.values[i]] += shift;
  }
}

/**
 * Puts a cell that hangs on one neighbour exactly under (over) it where there is room: sweeps leave
 * chains a few pixels askew. Upwards only cells that nothing above holds are moved.
 */
function straighten(
  g: Rows,
  r: number,
  x: Float64Array,
  left: Float32Array,
  right: Float32Array,
  gap: Float32Array,
  to: Pulls,
  upwards: boolean,
): void {
  const a = g.list.offsets[r];
  const b = g.list.offsets[r + 1];
  const cells = g.list.values;
  for (let i = a; i < b; i++) {
    const v = cells[i];
    if (upwards && g.up.offsets[v + 1] > g.up.offsets[v]) continue;
    let held = -1;
    let strong = 0;
    for (let k = to.cell.offsets[v]; k < to.cell.offsets[v + 1]; k++) {
      if (to.weight[k] < 1) continue;
      strong++;
      held = k;
    }
    if (strong !== 1) continue;
    const wish = x[to.cell.values[held]] + to.wish[held];
    const low = i > a ? x[cells[i - 1]] + right[cells[i - 1]] + between(gap, cells[i - 1], v) + left[v] : -Infinity;
    const high = i + 1 < b ? x[cells[i + 1]] - left[cells[i + 1]] - between(gap, v, cells[i + 1]) - right[v] : Infinity;
    if (low <= high) x[v] = Math.min(high, Math.max(low, wish));
  }
}

class RowSolver {
  private readonly mean: Float64Array;
  private readonly mass: Float64Array;
  private readonly first: Int32Array;
  private readonly shift: Float64Array;

  constructor(widest: number) {
    this.mean = new Float64Array(widest);
    this.mass = new Float64Array(widest);
    this.first = new Int32Array(widest);
    this.shift = new Float64Array(widest);
  }

  solve(
    g: Rows,
    r: number,
    x: Float64Array,
    left: Float32Array,
    right: Float32Array,
    gap: Float32Array,
    main: Pulls,
    also: Pulls | null,
  ): void {
    const a = g.list.offsets[r];
    const n = g.list.offsets[r + 1] - a;
    const cells = g.list.values;
    const { mean, mass, first, shift } = this;
    let pools = 0;
    let offset = 0;
    for (let i = 0; i < n; i++) {
      const v = cells[a + i];
      if (i > 0) {
        const u = cells[a + i - 1];
        offset += right[u] + between(gap, u, v) + left[v];
      }
      shift[i] = offset;
      let sum = 0;
      let weight = 0;
      for (let k = main.cell.offsets[v]; k < main.cell.offsets[v + 1]; k++) {
        sum += main.weight[k] * (x[main.cell.values[k]] + main.wish[k]);
        weight += main.weight[k];
      }
      if (also) {
        for (let k = also.cell.offsets[v]; k < also.cell.offsets[v + 1]; k++) {
          sum += also.weight[k] * (x[also.cell.values[k]] + also.wish[k]);
          weight += also.weight[k];
        }
      }
      // Nothing pulls: stay, lightly, so that the row's others decide.
      const wish = weight > 0 ? sum / weight : x[v];
      mean[pools] = wish - offset;
      mass[pools] = weight > 0 ? weight : 0.01;
      first[pools] = i;
      pools++;
      while (pools > 1 && mean[pools - 2] >= mean[pools - 1]) {
        const m = mass[pools - 2] + mass[pools - 1];
        mean[pools - 2] = (mean[pools - 2] * mass[pools - 2] + mean[pools - 1] * mass[pools - 1]) / m;
        mass[pools - 2] = m;
        pools--;
      }
    }
    for (let p = 0; p < pools; p++) {
      const end = p + 1 < pools ? first[p + 1] : n;
      for (let i = first[p]; i < end; i++) x[cells[a + i]] = mean[p] + shift[i];
    }
  }
}
