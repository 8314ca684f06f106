/** The drawing of one column: rows, order, places, lanes and the path of every edge. */

import { Floats } from "../base/grow";
import type { Cells, SplitRows } from "./cells";
import type { Arrangement, Flow, Work } from "./flow";
import { assignLanes, LANE_GAP, type LaneWish } from "./lanes";
import { placeRows } from "./place";
import type { Ranks } from "./rank";
import { tangled } from "./rows";
import { shorten } from "./shorten";
import { orderedCells } from "./strands";

const BOX_GAP = 24;
const BEND_GAP = 12;
const ROW_GAP = 24;
/** How much nearer rows stand in a drawing that would not fit otherwise. */
export const CLOSER = 10;
const PORT_GAP = 16;
/** Between a border's ports and the first (last) row: the header or padding adds to it. */
const PORT_ROW = 10;
/** Edges that run far sideways get taller rows to do it in, up to this. */
const ROW_GAP_MAX = 60;
const WIDE_GAP = 0.02;
/** Between stems and the next row where edges run straight. */
const STRAIGHT_ROOM = 6;

export function layColumn(flow: Flow, ranks: Ranks, work: Work, maxRow: number, closer = 0): Arrangement {
  const rows = splitWideRows(flow, ranks, maxRow);
  const cells = orderedCells(flow, ranks, rows, work);
  const { n, kind } = flow;
  const total = cells.rows.cells;
  const left = new Float32Array(total).fill(1);
  const right = new Float32Array(total).fill(1);
  const gap = new Float32Array(total).fill(BEND_GAP);
  for (let v = 0; v < n; v++) {
    left[v] = kind[v] === 0 ? flow.axis[v] : 2;
    right[v] = kind[v] === 0 ? flow.w[v] - flow.axis[v] : 2;
    gap[v] = kind[v] === 0 ? BOX_GAP : PORT_GAP;
  }
  const x = placeRows(cells.rows, left, right, gap, cells.up, cells.down);
  shorten(cells.rows, x, left, right, gap, cells.down.run);
  const low = new Float64Array(rows.count).fill(Infinity);
  const high = new Float64Array(rows.count).fill(-Infinity);
  for (let v = 0; v < total; v++) {
    const r = cells.rows.row[v];
    low[r] = Math.min(low[r], x[v] - left[v]);
    high[r] = Math.max(high[r], x[v] + right[v]);
  }
  // A row that splitting left empty is as wide as nothing, where the row before it has its middle.
  for (let r = 0; r < rows.count; r++)
    if (low[r] > high[r]) low[r] = high[r] = r > 0 ? (low[r - 1] + high[r - 1]) / 2 : 0;
  const lanes = chooseLanes(flow, cells, rows.rank, low, high, work);
  const leave = spreadExits(flow, cells, x, lanes);
  const enter = spreadEntries(flow, cells, x, leave, lanes);
  const y = rowHeights(flow, cells, rows, x, leave, enter, ROW_GAP - closer);
  return { ...draw(flow, cells, rows, x, y, leave, enter, lanes, low, high), tangles: tangled(cells.rows) };
}

/** Arms of a branch stand side by side however wide they are; more boxes than this are a field. */
const ARMS = 10;

/** Whether the boxes of one rank are laid out as several rows. */
export const isField = (width: number, boxes: number, maxRow: number): boolean => boxes > ARMS && width > maxRow * 1.25;

/** A rank wider than `maxRow` is cut into several rows: 192 experts become a field, not a strip. */
function splitWideRows(flow: Flow, ranks: Ranks, maxRow: number): SplitRows {
  const width = new Float64Array(ranks.count);
  const boxes = new Int32Array(ranks.count);
  for (let v = 0; v < flow.n; v++) {
    if (flow.kind[v] !== 0) continue;
    width[ranks.rank[v]] += flow.w[v] + BOX_GAP;
    boxes[ranks.rank[v]]++;
  }
  const pieces = new Int32Array(ranks.count).fill(1);
  let wide = false;
  for (let r = 0; r < ranks.count; r++) {
    if (isField(width[r], boxes[r], maxRow)) {
      pieces[r] = Math.ceil(width[r] / maxRow);
      wide = true;
    }
  }
  if (!wide)
    return {
      rank: ranks.rank,
      count: ranks.count,
      split: new Uint8Array(ranks.count),
      along: new Int32Array(flow.n),
      wide: maxRow,
    };
  const first = new Int32Array(ranks.count + 1);
  for (let r = 0; r < ranks.count; r++) first[r + 1] = first[r] + pieces[r];
  const rank = new Int32Array(flow.n);
  const split = new Uint8Array(first[ranks.count]);
  const along = new Int32Array(flow.n);
  const placed = new Int32Array(first[ranks.count]);
  const filled = new Float64Array(ranks.count);
  for (let v = 0; v < flow.n; v++) {
    const r = ranks.rank[v];
    const share = width[r] / pieces[r];
    const piece = flow.kind[v] === 0 ? Math.min(pieces[r] - 1, Math.floor(filled[r] / share)) : 0;
    if (flow.kind[v] === 0) filled[r] += flow.w[v] + BOX_GAP;
    rank[v] = first[r] + piece;
    if (pieces[r] === 1) continue;
    split[rank[v]] = 1;
    along[v] = placed[rank[v]]++ * pieces[r] + piece;
  }
  return { rank, count: first[ranks.count], split, along, wide: maxRow };
}

/** Where free edges leave a box: each tensor at a point of its own, on the side that it goes to; one that runs straight stays so. */
function spreadExits(flow: Flow, cells: Cells, x: Float64Array, lane: Float64Array): Float32Array {
  const { n, src, dst, net } = flow;
  const out = flow.leave.map((v) => v || 0);
  const isFree = (e: number): boolean => Number.isNaN(flow.leave[e]) && flow.kind[src[e]] === 0;
  // Few boxes make more than one tensor.
  const known = new Int32Array(n).fill(-1);
  const several = new Uint8Array(n);
  for (let e = 0; e < flow.m; e++) {
    if (!isFree(e)) continue;
    if (known[src[e]] < 0) known[src[e]] = net[e];
    else if (known[src[e]] !== net[e]) several[src[e]] = 1;
  }
  /** By block: the free edges of each tensor that leaves it. */
  const free: Map<number, number[]>[] = [];
  for (let e = 0; e < flow.m; e++) {
    if (!several[src[e]] || !isFree(e)) continue;
    const nets = (free[src[e]] ??= new Map());
    const edges = nets.get(net[e]);
    if (edges) edges.push(e);
    else nets.set(net[e], [e]);
  }
  for (let v = 0; v < n; v++) {
    if (!several[v]) continue;
    const to = (e: number): number => {
      if (cells.route[e] !== 1) return lane[e] - x[v];
      const k = cells.bendStart[e];
      return (k < cells.bendStart[e + 1] ? x[cells.bends[k]] : x[dst[e]] + (flow.enter[e] || 0)) - x[v];
    };
    // Tensors of which one goes to both sides of the other leave together: apart they would cross.
    const together: number[][] = [];
    const reach = (edges: readonly number[]): number => Math.max(...edges.map(to));
    for (const edges of [...free[v].values()].sort((p, q) => Math.min(...p.map(to)) - Math.min(...q.map(to)))) {
      const last = together.at(-1);
      if (last && Math.min(...edges.map(to)) < reach(last)) last.push(...edges);
      else together.push(edges);
    }
    // The edge that goes furthest straight on says where all of them leave.
    const wishes = together.map((edges) => edges.map(to).reduce((a, b) => (Math.abs(b) < Math.abs(a) ? b : a)));
    const limit = Math.max(0, Math.min(flow.axis[v], flow.w[v] - flow.axis[v]) - 10);
    // What is written left of the stem has its room left of the middle.
    const places = spread(wishes, flow.stem[v] > 0 ? 0 : -limit, limit);
    together.forEach((edges, i) => {
      for (const e of edges) out[e] = places[i];
    });
  }
  return out;
}

/** Between points where edges leave or meet a box, where there is room. */
const ENDS_APART = 10;

/** A place for each wish between two limits, in the same order and some way apart. */
function spread(wishes: readonly number[], low: number, high: number): Float32Array {
  const order = wishes.map((_, i) => i).sort((p, q) => wishes[p] - wishes[q] || p - q);
  const step = Math.min(ENDS_APART, (high - low) / Math.max(1, wishes.length - 1));
  const out = new Float32Array(wishes.length);
  let least = low;
  order.forEach((k, i) => {
    out[k] = Math.min(Math.max(wishes[k], least), high - step * (wishes.length - 1 - i));
    least = out[k] + step;
  });
  return out;
}

/** Where free edges meet a box: straight ones stay straight, the rest fan out by where they come from. */
function spreadEntries(
  flow: Flow,
  cells: Cells,
  x: Float64Array,
  leave: Float32Array,
  lane: Float64Array,
): Float32Array {
  const out = flow.enter.slice();
  const { n, src, dst } = flow;
  const free: number[][] = [];
  for (let e = 0; e < flow.m; e++) {
    if (!Number.isNaN(out[e])) continue;
    (free[dst[e]] ??= []).push(e);
  }
  for (let v = 0; v < n; v++) {
    const edges = free[v];
    if (!edges) continue;
    if (edges.length === 1) {
      out[edges[0]] = 0;
      continue;
    }
    const from = (e: number): number => {
      if (cells.route[e] !== 1) return lane[e] - x[v];
      const k = cells.bendStart[e + 1];
      return (k > cells.bendStart[e] ? x[cells.bends[k - 1]] : x[src[e]] + leave[e]) - x[v];
    };
    const half = Math.min(flow.axis[v], flow.w[v] - flow.axis[v]) - 10;
    const limit = Math.max(0, Math.min(half, ENTRY_REACH * edges.length));
    const places = spread(edges.map(from), -limit, limit);
    edges.forEach((e, i) => {
      out[e] = places[i];
    });
  }
  return out;
}

/** How far from a box's middle each of its edges may meet it. */
const ENTRY_REACH = 44;

/** Lane x of each edge that has one; edges of one tensor, or into one box, share theirs. */
function chooseLanes(
  flow: Flow,
  cells: Cells,
  rank: Int32Array,
  low: Float64Array,
  high: Float64Array,
  work: Work,
): Float64Array {
  const lane = new Float64Array(flow.m);
  const bySource = new Map<string, number[]>();
  const byTarget = new Map<string, number[]>();
  for (let e = 0; e < flow.m; e++) {
    if (cells.route[e] < 2) continue;
    const key = `${flow.src[e]},${flow.net[e]},${cells.route[e]}`;
    const list = bySource.get(key);
    if (list) list.push(e);
    else bySource.set(key, [e]);
  }
  const groups: number[][] = [];
  for (const edges of bySource.values()) {
    if (edges.length > 1) groups.push(edges);
    else {
      const key = `${flow.dst[edges[0]]},${cells.route[edges[0]]}`;
      const list = byTarget.get(key);
      if (list) list.push(edges[0]);
      else byTarget.set(key, [edges[0]]);
    }
  }
  for (const edges of byTarget.values()) groups.push(edges);
  if (groups.length === 0) return lane;
  const wishes: LaneWish[] = groups.map((edges) => {
    let from = Infinity;
    let to = -Infinity;
    for (const e of edges) {
      const a = rank[flow.src[e]];
      const b = rank[flow.dst[e]];
      const up = cells.route[e] === 3;
      from = Math.min(from, up ? Math.min(a, b) : a + 1);
      to = Math.max(to, up ? Math.max(a, b) : b - 1);
    }
    return { from, to, back: cells.route[edges[0]] === 3 };
  });
  work.lanes += wishes.length;
  const at = assignLanes(wishes, low, high);
  groups.forEach((edges, i) => {
    for (const e of edges) lane[e] = at[i];
  });
  return lane;
}

interface RowY {
  readonly top: Float64Array;
  readonly bottom: Float64Array;
  /** Where the stems end and curves may begin. */
  readonly under: Float64Array;
}

function rowHeights(
  flow: Flow,
  cells: Cells,
  rows: SplitRows,
  x: Float64Array,
  leave: Float32Array,
  enter: Float32Array,
  least: number,
): RowY {
  const height = new Float64Array(rows.count);
  const gap = new Float64Array(rows.count).fill(least);
  const stem = new Float64Array(rows.count);
  const onlyPorts = new Uint8Array(rows.count).fill(1);
  for (let v = 0; v < flow.n; v++) {
    const r = rows.rank[v];
    if (flow.kind[v] !== 0) continue;
    onlyPorts[r] = 0;
    height[r] = Math.max(height[r], flow.h[v]);
  }
  // A box that is lower than its row stands in the middle of it, and its stem begins there.
  for (let v = 0; v < flow.n; v++) {
    const r = rows.rank[v];
    if (flow.kind[v] === 0) stem[r] = Math.max(stem[r], flow.bottom[v] + flow.stem[v] - (height[r] + flow.h[v]) / 2);
  }
  // Below the stems: what the widest curve needs.
  const curve = new Float64Array(rows.count).fill(STRAIGHT_ROOM);
  const widen = (r: number, run: number): void => {
    if (r < 0 || r >= rows.count) return;
    gap[r] = Math.max(gap[r], Math.min(ROW_GAP_MAX, least + WIDE_GAP * Math.abs(run)));
    if (Math.abs(run) > 1) curve[r] = Math.max(curve[r], STRAIGHT_ROOM + Math.abs(run));
  };
  for (let e = 0; e < flow.m; e++) {
    const a = rows.rank[flow.src[e]];
    const b = rows.rank[flow.dst[e]];
    const x0 = x[flow.src[e]] + leave[e];
    const x1 = x[flow.dst[e]] + (enter[e] || 0);
    if (cells.route[e] !== 1) {
      if (cells.route[e] === 3) {
        widen(a, 200);
        widen(b - 1, 200);
      }
      continue;
    }
    let at = x0;
    for (let k = cells.bendStart[e], r = a; k < cells.bendStart[e + 1]; k++, r++) {
      widen(r, x[cells.bends[k]] - at);
      at = x[cells.bends[k]];
    }
    widen(b - 1, x1 - at);
  }
  const top = new Float64Array(rows.count);
  const bottom = new Float64Array(rows.count);
  const under = new Float64Array(rows.count);
  let y = 0;
  for (let r = 0; r < rows.count; r++) {
    top[r] = y;
    bottom[r] = y + height[r];
    under[r] = bottom[r] + stem[r];
    // Where all edges run straight, a shape stands beside them in the gap itself.
    const room = onlyPorts[r] || onlyPorts[r + 1] ? Math.max(PORT_ROW, gap[r] - 14) : gap[r];
    y = bottom[r] + (r + 1 < rows.count ? Math.max(room, stem[r] + Math.min(room, curve[r])) : 0);
  }
  return { top, bottom, under };
}

function draw(
  flow: Flow,
  cells: Cells,
  rows: SplitRows,
  x: Float64Array,
  y: RowY,
  leave: Float32Array,
  enter: Float32Array,
  lane: Float64Array,
  low: Float64Array,
  high: Float64Array,
): Omit<Arrangement, "tangles"> {
  const { n, m } = flow;
  let min = Infinity;
  let max = -Infinity;
  for (let r = 0; r < rows.count; r++) {
    min = Math.min(min, low[r]);
    max = Math.max(max, high[r]);
  }
  if (!(max > min)) min = max = 0;
  const bx = new Float32Array(n);
  const by = new Float32Array(n);
  for (let v = 0; v < n; v++) {
    const r = rows.rank[v];
    bx[v] = x[v] - min - (flow.kind[v] === 0 ? flow.axis[v] : 0);
    by[v] = flow.kind[v] === 0 ? y.top[r] + (y.bottom[r] - y.top[r] - flow.h[v]) / 2 : y.top[r];
  }
  const pathStart = new Int32Array(m + 1);
  const points = new Floats(m * 12);
  let lastX = 0;
  let lastY = 0;
  const to = (px: number, py: number, bend = 0): void => {
    // Points closer than half a pixel are one point; a bent stretch is kept in any case.
    if (bend === 0 && points.length > pathBegin && Math.abs(px - lastX) < 0.01 && Math.abs(py - lastY) < 0.5) return;
    const before = points.length - 6;
    if (
      bend === 0 &&
      before >= pathBegin &&
      points.data[before + 5] === 0 &&
      Math.abs(points.data[before] - px) < 0.01 &&
      Math.abs(lastX - px) < 0.01
    ) {
      // Straight on: the last point moves instead of another one behind it.
      points.data[before + 4] = py;
      lastY = py;
      return;
    }
    points.push(px);
    points.push(py);
    points.push(bend);
    lastX = px;
    lastY = py;
  };
  let pathBegin = 0;
  for (let e = 0; e < m; e++) {
    pathBegin = points.length;
    const s = flow.src[e];
    const t = flow.dst[e];
    const a = rows.rank[s];
    const b = rows.rank[t];
    const x0 = x[s] - min + leave[e];
    const x1 = x[t] - min + (enter[e] || 0);
    to(x0, flow.kind[s] === 0 ? by[s] + flow.bottom[s] : by[s]);
    to(x0, y.under[a]);
    if (cells.route[e] === 1) {
      for (let k = cells.bendStart[e], r = a + 1; k < cells.bendStart[e + 1]; k++, r++) {
        const xb = x[cells.bends[k]] - min;
        to(xb, y.top[r]);
        to(xb, y.under[r]);
      }
    } else {
      const xl = lane[e] - min;
      if (cells.route[e] === 2) {
        to(xl, y.top[a + 1]);
        to(xl, y.under[b - 1]);
      } else {
        to(xl, y.under[a], LANE_GAP);
        to(xl, y.top[b]);
        to(x1, y.top[b], -LANE_GAP);
      }
    }
    to(x1, y.top[b]);
    to(x1, flow.kind[t] === 0 ? by[t] + flow.top[t] : by[t]);
    pathStart[e + 1] = points.length / 3;
  }
  const height = rows.count > 0 ? y.bottom[rows.count - 1] : 0;
  return { width: max - min, height, x: bx, y: by, pathStart, points: points.take(), signs: [] };
}
