/** Columns of a drawing: one, unless it could not be read in the window; then cut where few tensors cross. */

import { Floats, Ints } from "../base/grow";
import { READABLE } from "./style";
import { isField, layColumn } from "./column";
import { ENTRY, EXIT, type Arrangement, type Flow, type Work } from "./flow";
import { assignRanks, type Ranks } from "./rank";

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

/** How many windows high a drawing may be in one column. */
function windows(boxes: number, share: number): number {
  if (share >= 1 || (share >= MOST_OF_IT && boxes >= VERY_FEW)) return 1;
  // The group around everything comes next; of many layers each stays whole, their parent wraps between them.
  return share >= MOST_OF_IT ? 1.7 : boxes < FEW ? 3 : 1;
}

const COLUMN_GAP = 44;
const ROW_ESTIMATE = 32;

/** Yields how far it is (columns laid, columns in all), so that a long run can be watched and called off. */
export type Steps<T> = Generator<readonly [done: number, total: number], T, void>;

/** Runs steps to their end without a break. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const r = steps.next();
    if (r.done) return r.value;
  }
}

export function arrange(flow: Flow, options: ArrangeOptions, work: Work): Arrangement {
  return finish(arrangeSteps(flow, options, work));
}

export function* arrangeSteps(flow: Flow, options: ArrangeOptions, work: Work): Steps<Arrangement> {
  const ranks = assignRanks(flow, work);
  let area = 0;
  for (let v = 0; v < flow.n; v++) if (flow.kind[v] === 0) area += (flow.w[v] + 24) * (flow.h[v] + ROW_ESTIMATE);
  const maxRow = Math.max(900, Math.sqrt((area * options.width) / options.height) * 1.15);
  const cut = chooseColumns(flow, ranks, options, maxRow);
  return cut ? yield* layColumns(flow, cut, work, maxRow) : layColumn(flow, ranks, work, maxRow);
}

interface Columns {
  readonly count: number;
  /** Column of each block. */
  readonly of: Int32Array;
}

/** Cuts between ranks where few tensors cross, near equal heights; null when one column is right. */
function chooseColumns(flow: Flow, ranks: Ranks, options: ArrangeOptions, maxRow: number): Columns | null {
  const { n, m, kind } = flow;
  const R = ranks.count;
  if (R < 2) return null;
  const height = new Float64Array(R);
  const width = new Float64Array(R);
  const side = new Int32Array(R);
  for (let v = 0; v < n; v++) {
    if (kind[v] !== 0) continue;
    const r = ranks.rank[v];
    side[r]++;
    width[r] += flow.w[v] + 24;
    height[r] = Math.max(height[r], flow.h[v]);
  }
  let total = 0;
  let boxes = 0;
  for (let v = 0; v < n; v++) if (kind[v] === 0) boxes++;
  for (let r = 0; r < R; r++) {
    if (isField(width[r], side[r], maxRow)) {
      height[r] = (height[r] + ROW_ESTIMATE) * Math.ceil(width[r] / maxRow);
      width[r] = maxRow;
    }
    height[r] += ROW_ESTIMATE;
    total += height[r];
  }
  const window = options.height / READABLE;
  if (total < window * windows(boxes, options.share)) return null;
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

  const target = total / wanted;
  const columnOfRank = new Int32Array(R);
  let column0 = 0;
  let done = 0;
  let start = 0;
  while (start < R) {
    let sum = 0;
    let best = -1;
    let bestCost = Infinity;
    let r = start;
    const left = total - done;
    if (left > target * 1.3) {
      for (; r < R - 1; r++) {
        sum += height[r];
        if (sum > target * 1.3 && best >= 0) break;
        if (sum < target * 0.7) continue;
        const off = Math.abs(sum - target) / target;
        const over = Math.max(0, sum / window - 1);
        const cost =
          WRAPPED * cross[r] +
          16 * off * off +
          (left - sum < target * 0.35 ? 12 : 0) +
          (over > 0 ? TOO_HIGH * (1 + 10 * over) : 0);
        if (cost < bestCost) {
          bestCost = cost;
          best = r;
        }
      }
    }
    const end = best < 0 ? R - 1 : best;
    for (let k = start; k <= end; k++) {
      columnOfRank[k] = column0;
      done += height[k];
    }
    column0++;
    start = end + 1;
  }
  if (column0 < 2 || !worthwhile(columnOfRank, column0, cross, height, width, total, options)) return null;
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
 * Whether the columns as they were cut come out larger than one: a row that is nearly all of it stays as high as
 * it is, and the signs of what is wrapped stand in a row of their own at both ends.
 */
function worthwhile(
  columnOf: Int32Array,
  count: number,
  cross: Int32Array,
  height: Float64Array,
  width: Float64Array,
  total: number,
  window: ArrangeOptions,
): boolean {
  const wide = new Float64Array(count);
  const tall = new Float64Array(count);
  for (let r = 0; r < columnOf.length; r++) {
    wide[columnOf[r]] = Math.max(wide[columnOf[r]], width[r]);
    tall[columnOf[r]] += height[r];
  }
  const uncut = Math.max(...wide);
  let wrapped = 0;
  for (let r = 0; r + 1 < columnOf.length; r++) {
    if (columnOf[r] === columnOf[r + 1]) continue;
    wrapped += cross[r];
    for (const c of [columnOf[r], columnOf[r + 1]]) wide[c] = Math.max(wide[c], SIGN_WIDTH * cross[r]);
  }
  const scale = (w: number, h: number): number => Math.min(window.width / w, window.height / h);
  const cut = scale(
    wide.reduce((a, b) => a + b + COLUMN_GAP, 0),
    Math.max(...tall),
  );
  return cut > (GAIN + CHARGE * (wrapped / (count - 1) - 1)) * scale(uncut, total);
}

/** What one more tensor across a cut is worth, against a column that is a quarter too long. */
const WRAPPED = 3;
/** A column that is higher than the window is one more reason to cut it earlier. */
const TOO_HIGH = 6;
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
    const { wide, tall } = extentOf(height, width, total, k);
    return Math.min(window.width / wide, window.height / tall);
  };
  let best = 1;
  let largest = scaleOf(1);
  // Columns of equal width would come out largest at about this many; each step is linear in the rows.
  const { wide } = extentOf(height, width, total, 1);
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
function extentOf(height: Float64Array, width: Float64Array, total: number, k: number): { wide: number; tall: number } {
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

/** One tensor that is read in other columns than its own: a sign where it ends, the same where it goes on. */
interface Connector {
  readonly number: number;
  readonly exit: number; // block index of its sign in the source column's flow
  readonly leaves: Map<number, number>; // by source block: the edge into that sign
  readonly entries: Map<number, number>; // by column: block index of the sign there
}

interface SubFlow {
  readonly blocks: Ints; // original block, or -1 for a connector's sign
  readonly signs: Ints; // the block that a sign names, -1 for blocks
  readonly kind: Ints;
  readonly src: Ints;
  readonly dst: Ints;
  readonly leave: Floats;
  readonly enter: Floats;
  readonly net: Ints;
}

function* layColumns(flow: Flow, cut: Columns, work: Work, maxRow: number): Steps<Arrangement> {
  const { n, m } = flow;
  const C = cut.count;
  const subs: SubFlow[] = Array.from({ length: C }, () => ({
    blocks: new Ints(),
    signs: new Ints(),
    kind: new Ints(),
    src: new Ints(),
    dst: new Ints(),
    leave: new Floats(),
    enter: new Floats(),
    net: new Ints(),
  }));
  const local = new Int32Array(n);
  for (let v = 0; v < n; v++) {
    const s = subs[cut.of[v]];
    local[v] = s.blocks.push(v);
    s.signs.push(-1);
    s.kind.push(flow.kind[v]);
  }
  const signs: {
    readonly column: number;
    readonly block: number;
    readonly edge: number;
    readonly end: number;
    readonly number: number;
  }[] = [];
  // A sign is a box of its own: where a tensor leaves it names the reader, where it goes on the maker.
  const addSign = (column: number, names: number, edge: number, end: number, number: number): number => {
    const s = subs[column];
    const block = s.blocks.push(-1);
    s.signs.push(names);
    s.kind.push(0);
    signs.push({ column, block, edge, end, number });
    return block;
  };
  const connect = (s: SubFlow, a: number, b: number, e: number, leave: number, enter: number): number => {
    s.src.push(a);
    s.dst.push(b);
    s.leave.push(leave);
    s.enter.push(enter);
    s.net.push(flow.net[e]);
    return s.src.length - 1;
  };
  // For each edge: its piece in the source column and, where that is another, its piece in the target's.
  const head = new Int32Array(m).fill(-1);
  const tail = new Int32Array(m).fill(-1);
  const connectors = new Map<string, Connector>();
  for (let e = 0; e < m; e++) {
    const s = flow.src[e];
    const t = flow.dst[e];
    const a = cut.of[s];
    const b = cut.of[t];
    if (a === b) {
      head[e] = connect(subs[a], local[s], local[t], e, flow.leave[e], flow.enter[e]);
      continue;
    }
    const key = `${flow.net[e]},${a}`;
    let c = connectors.get(key);
    if (!c) {
      const number = connectors.size;
      c = { number, exit: addSign(a, t, e, EXIT, number), leaves: new Map(), entries: new Map() };
      connectors.set(key, c);
    }
    let h = c.leaves.get(s);
    if (h === undefined) c.leaves.set(s, (h = connect(subs[a], local[s], c.exit, e, flow.leave[e], 0)));
    head[e] = h;
    let entry = c.entries.get(b);
    if (entry === undefined) c.entries.set(b, (entry = addSign(b, s, e, ENTRY, c.number)));
    tail[e] = connect(subs[b], entry, local[t], e, 0, flow.enter[e]);
  }
  const laid: Arrangement[] = [];
  for (const s of subs) {
    const sub = toFlow(flow, s);
    laid.push(layColumn(sub, assignRanks(sub, work), work, maxRow));
    yield [laid.length, C];
  }
  const left = new Float64Array(C);
  let width = 0;
  let height = 0;
  for (let c = 0; c < C; c++) {
    left[c] = width + (c > 0 ? COLUMN_GAP : 0);
    width = left[c] + laid[c].width;
    height = Math.max(height, laid[c].height);
  }
  const x = new Float32Array(n);
  const y = new Float32Array(n);
  for (let v = 0; v < n; v++) {
    const c = cut.of[v];
    x[v] = left[c] + laid[c].x[local[v]];
    // Outputs leave at the bottom of the whole.
    y[v] = flow.kind[v] === 2 ? height : laid[c].y[local[v]];
  }
  const points = new Floats(m * 12);
  const pathStart = new Int32Array(m + 1);
  const push = (px: number, py: number, bend: number): void => {
    points.push(px);
    points.push(py);
    points.push(bend);
  };
  const copy = (c: number, e: number, jump: boolean): void => {
    const a = laid[c];
    for (let p = a.pathStart[e]; p < a.pathStart[e + 1]; p++) {
      push(left[c] + a.points[3 * p], a.points[3 * p + 1], jump && p === a.pathStart[e] ? NaN : a.points[3 * p + 2]);
    }
  };
  for (let e = 0; e < m; e++) {
    const t = flow.dst[e];
    copy(cut.of[flow.src[e]], head[e], false);
    if (tail[e] >= 0) copy(cut.of[t], tail[e], true);
    if (flow.kind[t] === 2) push(x[t], height, 0);
    pathStart[e + 1] = points.length / 3;
  }
  return {
    width,
    height,
    x,
    y,
    pathStart,
    points: points.take(),
    tangles: laid.reduce((sum, a) => sum + a.tangles, 0),
    signs: signs.map(({ column, block, ...s }) => ({
      ...s,
      x: left[column] + laid[column].x[block],
      y: laid[column].y[block],
    })),
  };
}

function toFlow(flow: Flow, s: SubFlow): Flow {
  const n = s.blocks.length;
  // A sign is as large as the words for the block that it names.
  const pick = (a: Float32Array, sign: (v: number) => number): Float32Array => {
    const out = new Float32Array(n);
    for (let i = 0; i < n; i++) out[i] = s.blocks.data[i] >= 0 ? a[s.blocks.data[i]] : sign(s.signs.data[i]);
    return out;
  };
  const wide = (v: number): number => flow.signW[v];
  const high = (v: number): number => flow.signH[v];
  return {
    n,
    kind: Uint8Array.from(s.kind.take()),
    w: pick(flow.w, wide),
    h: pick(flow.h, high),
    axis: pick(flow.axis, (v) => wide(v) / 2),
    top: pick(flow.top, () => 0),
    bottom: pick(flow.bottom, high),
    stem: pick(flow.stem, () => 0),
    signW: pick(flow.signW, () => 0),
    signH: pick(flow.signH, () => 0),
    m: s.src.length,
    src: s.src.take(),
    dst: s.dst.take(),
    leave: s.leave.take(),
    enter: s.enter.take(),
    net: s.net.take(),
    portAt: flow.portAt && pick(flow.portAt, () => NaN),
    careful: flow.careful,
    loose: flow.loose,
  };
}
