/** Where the edges of one tensor part: late, so that few strokes are drawn, or early where that saves crossings. */

import { buildCells, type Cells, type SplitRows } from "./cells";
import type { Flow, Work } from "./flow";
import { orderRows } from "./order";
import type { Ranks } from "./rank";
import { crossings, number } from "./rows";

/** The cells of a column with their order. */
export function orderedCells(flow: Flow, ranks: Ranks, rows: SplitRows, work: Work): Cells {
  const late = buildCells(flow, ranks, rows, work);
  orderRows(late.rows, work, flow.careful);
  if (!flow.careful || crossings(late.rows) === 0 || !sharing(late)) return late;
  // Each edge for itself: what still runs side by side then is one strand.
  const apart = buildCells(flow, ranks, rows, work, edgeOfBend(late));
  orderRows(apart.rows, work, true);
  const early = buildCells(flow, ranks, rows, work, join(flow, apart));
  takeOrder(early, apart);
  orderRows(early.rows, work, true);
  return crossings(early.rows) < crossings(late.rows) ? early : late;
}

const sharing = (cells: Cells): boolean => cells.rows.cells - cells.rows.boxes < cells.bends.length;

function edgeOfBend(cells: Cells): Int32Array {
  const out = new Int32Array(cells.bends.length);
  for (let e = 0; e + 1 < cells.bendStart.length; e++) out.fill(e, cells.bendStart[e], cells.bendStart[e + 1]);
  return out;
}

/** Neighbours in a row that carry one tensor and have been one strand up to here stay one. */
function join(flow: Flow, cells: Cells): Int32Array {
  const { rows, bendStart, bends } = cells;
  const edge = new Int32Array(rows.cells).fill(-1);
  const step = new Int32Array(rows.cells);
  for (let e = 0; e < flow.m; e++) {
    for (let i = bendStart[e]; i < bendStart[e + 1]; i++) {
      edge[bends[i]] = e;
      step[bends[i]] = i;
    }
  }
  const out = edgeOfBend(cells);
  for (let r = 0; r < rows.rows; r++) {
    for (let i = rows.list.offsets[r] + 1; i < rows.list.offsets[r + 1]; i++) {
      const [u, v] = [rows.list.values[i - 1], rows.list.values[i]];
      const [a, b] = [edge[u], edge[v]];
      if (a < 0 || b < 0 || flow.net[a] !== flow.net[b] || flow.src[a] !== flow.src[b]) continue;
      const first = step[u] === bendStart[a];
      if (first || out[step[u] - 1] === out[step[v] - 1]) out[step[v]] = out[step[u]];
    }
  }
  return out;
}

/** Puts the cells of joined strands where their first edge had its own. */
function takeOrder(to: Cells, from: Cells): void {
  const at = new Int32Array(from.rows.cells);
  for (let r = 0; r < from.rows.rows; r++) number(from.rows, r, at);
  const place = new Int32Array(to.rows.cells).fill(-1);
  for (let v = 0; v < to.rows.boxes; v++) place[v] = at[v];
  to.bends.forEach((cell, i) => {
    if (place[cell] < 0) place[cell] = at[from.bends[i]];
  });
  const { list } = to.rows;
  for (let r = 0; r < to.rows.rows; r++) {
    const row = list.values.subarray(list.offsets[r], list.offsets[r + 1]);
    row.set(Array.from(row).sort((u, v) => place[u] - place[v]));
  }
}
