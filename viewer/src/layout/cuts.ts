/** Where a drawing is cut into columns: only where it could not be read in the window, between ranks where few tensors cross. */

import { isField } from "./column";
import type { Flow } from "./flow";
import type { Ranks } from "./rank";
import { READABLE } from "./style";

export interface ArrangeOptions {
  /** The window along the flow's width and height, in pixels. */
  readonly width: number;
  readonly height: number;
  /** How much of the model stands in this drawing: 1 for the outermost, which is the one fitted to the window. */
  readonly share: number;
}

/** A group with fewer boxes than this is read as one thing. */
const FEW = 24;
const VERY_FEW = 9;
/** A group with this share of the model is as good as all of it. */
const MOST_OF_IT = 0.6;

/** Members that are higher than this are unfolded groups: between them a group is sooner cut than between its ops. */
const SHEETS = 200;

/** How many windows high a drawing may be in one column. */
function windows({ boxes, total }: Extent, share: number): number {
  if (share >= 1 || (share >= MOST_OF_IT && boxes >= VERY_FEW)) return 1;
  // The group around everything comes next; of many layers each stays whole, their parent wraps between them.
  if (share >= MOST_OF_IT) return 1.7;
  return boxes >= FEW ? 1 : total > SHEETS * boxes ? 2 : 3;
}

export const COLUMN_GAP = 44;
export const ROW_ESTIMATE = 32;

export interface Columns {
  readonly count: number;
  /** Column of each block. */
  readonly of: Int32Array;
}

/** What each rank takes in one column. */
export interface Extent {
  readonly boxes: number;
  readonly height: Float64Array;
  readonly width: Float64Array;
  readonly total: number;
}

export function extentOf(flow: Flow, ranks: Ranks, maxRow: number): Extent {
  const height = new Float64Array(ranks.count);
  const width = new Float64Array(ranks.count);
  const side = new Int32Array(ranks.count);
  let boxes = 0;
  for (let v = 0; v < flow.n; v++) {
    if (flow.kind[v] !== 0) continue;
    const r = ranks.rank[v];
    boxes++;
    side[r]++;
    width[r] += flow.w[v] + 24;
    height[r] = Math.max(height[r], flow.h[v]);
  }
  let total = 0;
  for (let r = 0; r < ranks.count; r++) {
    if (isField(width[r], side[r], maxRow)) {
      height[r] = (height[r] + ROW_ESTIMATE) * Math.ceil(width[r] / maxRow);
      width[r] = maxRow;
    }
    height[r] += ROW_ESTIMATE;
    total += height[r];
  }
  return { boxes, height, width, total };
}

/** Whether one column could not be read. */
export const tooHigh = (extent: Extent, options: ArrangeOptions): boolean =>
  extent.height.length > 1 && extent.total >= (options.height / READABLE) * windows(extent, options.share);

/** Cuts between ranks where few tensors cross, near equal heights; null when one column is right. */
export function chooseColumns(flow: Flow, ranks: Ranks, extent: Extent, options: ArrangeOptions): Columns | null {
  const { n, m, kind } = flow;
  const { height, width, total } = extent;
  const R = ranks.count;
  const wanted = countColumns(height, width, total, options);
  if (wanted < 2) return null;

  // Tensors that cross each boundary between ranks, by sweeping where each starts and ends.
  const cross = new Int32Array(R + 1);
  let nets = 0;
  for (let e = 0; e < m; e++) nets = Math.max(nets, flow.net[e] + 1);
  const highest = new Int32Array(nets).fill(R);
  const lowest = new Int32Array(nets).fill(-1);
  for (let e = 0; e < m; e++) {
    if (kind[flow.src[e]] === 1 || kind[flow.dst[e]] === 2) continue;
    for (const r of [ranks.rank[flow.src[e]], ranks.rank[flow.dst[e]]]) {
      highest[flow.net[e]] = Math.min(highest[flow.net[e]], r);
      lowest[flow.net[e]] = Math.max(lowest[flow.net[e]], r);
    }
  }
  for (let net = 0; net < nets; net++) {
    if (lowest[net] < 0) continue;
    cross[highest[net]]++;
    cross[lowest[net]]--;
  }
  for (let r = 1; r <= R; r++) cross[r] += cross[r - 1]; // now: tensors alive between rank r and r + 1

  const columnOfRank = bestCut(extent, cross, wanted, options);
  if (!columnOfRank) return null;
  const column0 = columnOfRank[R - 1] + 1;
  const of = new Int32Array(n);
  for (let v = 0; v < n; v++) if (kind[v] === 0) of[v] = columnOfRank[ranks.rank[v]];
  // A port stands at the column that uses it first (inputs) or makes it (outputs).
  for (let v = 0; v < n; v++) {
    if (kind[v] === 0) continue;
    const edges = kind[v] === 1 ? ranks.outs : ranks.ins;
    let c = kind[v] === 1 ? column0 : 0;
    for (let i = edges.offsets[v]; i < edges.offsets[v + 1]; i++) {
      const other = kind[v] === 1 ? flow.dst[edges.values[i]] : flow.src[edges.values[i]];
      if (kind[other] === 0) c = kind[v] === 1 ? Math.min(c, of[other]) : Math.max(c, of[other]);
    }
    of[v] = c === column0 ? 0 : c;
  }
  return { count: column0, of };
}

/**
 * The column of each rank: of all ways to cut into columns of about `target` the one that costs least, taken from the first rank
 * on. A column may be twice as high; what is higher by itself stands alone.
 */
function cutAt(height: Float64Array, cross: Int32Array, target: number, window: number): Int32Array {
  const R = height.length;
  const highest = target * (R > MANY_RANKS ? HIGHEST_OF_MANY : HIGHEST);
  const least = new Float64Array(R + 1).fill(Infinity);
  const from = new Int32Array(R + 1);
  least[0] = 0;
  for (let end = 1; end <= R; end++) {
    let sum = 0;
    for (let start = end - 1; start >= 0; start--) {
      sum += height[start];
      if (sum > highest && start < end - 1) break;
      const off = sum / target - 1;
      const over = Math.max(0, sum / Math.max(window, target) - 1);
      const cost =
        least[start] +
        16 * off * off +
        (over > 0 ? TOO_HIGH * (1 + 10 * over) : 0) +
        (end < R ? WRAPPED * cross[end - 1] : 0);
      if (cost >= least[end]) continue;
      least[end] = cost;
      from[end] = start;
    }
  }
  const out = new Int32Array(R);
  for (let end = R; end > 0; end = from[end]) if (from[end] > 0) out[from[end]] = 1;
  for (let r = 1; r < R; r++) out[r] += out[r - 1];
  return out;
}

/**
 * The columns that come out largest, of about as many as are wanted; null where one column is better. A row that is nearly all of a
 * column stays as high as it is, and the signs of what is wrapped stand in a row of their own at both ends.
 */
function bestCut(
  { height, width, total }: Extent,
  cross: Int32Array,
  wanted: number,
  window: ArrangeOptions,
): Int32Array | null {
  const scale = (w: number, h: number): number => Math.min(window.width / w, window.height / h);
  let best: Int32Array | null = null;
  let largest = scale(most(width), total);
  for (const k of height.length > MANY_RANKS ? [wanted] : [wanted, wanted - 1, wanted + 1]) {
    if (k < 2) continue;
    const columnOf = cutAt(height, cross, total / k, window.height / READABLE);
    const count = columnOf[columnOf.length - 1] + 1;
    const wide = new Float64Array(count);
    const tall = new Float64Array(count);
    for (let r = 0; r < columnOf.length; r++) {
      wide[columnOf[r]] = Math.max(wide[columnOf[r]], width[r]);
      tall[columnOf[r]] += height[r];
    }
    let wrapped = 0;
    for (let r = 0; r + 1 < columnOf.length; r++) {
      if (columnOf[r] === columnOf[r + 1]) continue;
      wrapped += cross[r];
      for (const c of [columnOf[r], columnOf[r + 1]]) wide[c] = Math.max(wide[c], SIGN_WIDTH * cross[r]);
    }
    const size = scale(
      wide.reduce((a, b) => a + b + COLUMN_GAP, 0),
      most(tall),
    );
    // Of two or three columns none is a rest beside something that is too high by itself.
    if (count <= 3 && tall.some((t) => t < LEAST_COLUMN * most(tall))) continue;
    const worth = best ? WORTH : count > 1 ? GAIN + CHARGE * (wrapped / (count - 1) - 1) : Infinity;
    if (size <= worth * largest) continue;
    largest = size;
    best = columnOf;
  }
  return best;
}

const most = (values: Float64Array): number => values.reduce((a, b) => Math.max(a, b), 0);

/** What one more tensor across a cut is worth, against a column that is a quarter too long. */
const WRAPPED = 3;
/** A column that is higher than the window, where all could fit, is one more reason to cut it earlier. */
const TOO_HIGH = 6;
/** How much higher than the others a column may be; among so many ranks there is always a place nearby, and each place tried costs time. */
const HIGHEST = 2;
const HIGHEST_OF_MANY = 1.25;
const MANY_RANKS = 1000;
/** A column that is lower than this share of the highest is a rest. */
const LEAST_COLUMN = 0.3;
/** Wrapping at all must make everything this much larger. */
const GAIN = 1.15;
/** And this much more for each further tensor that is wrapped at a cut. */
const CHARGE = 0.05;
/** What a sign ("A → layer3") takes of its row. */
const SIGN_WIDTH = 120;
/** One more column must make everything this much larger. */
const WORTH = 1.04;

/** The fewest columns that can be read in the window; where none can, those that come out largest. */
function countColumns(height: Float64Array, width: Float64Array, total: number, window: ArrangeOptions): number {
  const most = height.length;
  const scaleOf = (k: number): number => {
    const { wide, tall } = takes(height, width, total, k);
    return Math.min(window.width / wide, window.height / tall);
  };
  let best = 1;
  let largest = scaleOf(1);
  // Columns of equal width would come out largest at about this many; each step is linear in the rows.
  const { wide } = takes(height, width, total, 1);
  const guess = Math.round(Math.sqrt((window.width * total) / (wide * window.height)));
  const from = guess > 12 ? Math.floor(guess * 0.6) : 2;
  for (let k = from; k <= Math.min(most, guess > 12 ? Math.ceil(guess * 1.5) : 14); k += Math.max(1, guess >> 3)) {
    if (largest >= READABLE) break;
    const scale = scaleOf(k);
    if (scale < largest * WORTH) continue;
    largest = scale;
    best = k;
  }
  return best;
}

/** What k columns take: the widest row of each, side by side, and the tallest column. */
function takes(height: Float64Array, width: Float64Array, total: number, k: number): { wide: number; tall: number } {
  let sum = 0;
  let wide = 0;
  let at = 0;
  let begin = 0;
  let tall = 0;
  for (let r = 0, c = 1; r < height.length; r++) {
    if (at + height[r] / 2 > (total * c) / k && at > begin) {
      sum += wide + COLUMN_GAP;
      tall = Math.max(tall, at - begin);
      begin = at;
      wide = 0;
      c++;
    }
    wide = Math.max(wide, width[r]);
    at += height[r];
  }
  return { wide: sum + wide, tall: Math.max(tall, at - begin) };
}
