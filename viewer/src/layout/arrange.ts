/** Decides whether a group is one column or several: long chains wrap so that the drawing fits a window. */

import { Floats, Ints } from "../base/grow";
import { layColumn } from "./column";
import type { Arrangement, Flow, Work } from "./flow";
import { assignRanks, type Ranks } from "./rank";

export interface ArrangeOptions {
  /** Width over height that a drawing should have. */
  readonly aspect: number;
  /** A drawing up to this height stays one column. */
  readonly wrapFrom: number;
}

const COLUMN_GAP = 28;
const TRACK = 9;
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
  const maxRow = Math.max(900, Math.sqrt(area * options.aspect) * 1.15);
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
  if (R < 4) return null;
  const height = new Float64Array(R);
  const width = new Float64Array(R);
  for (let v = 0; v < n; v++) {
    if (kind[v] !== 0) continue;
    const r = ranks.rank[v];
    width[r] += flow.w[v] + 24;
    height[r] = Math.max(height[r], flow.h[v]);
  }
  let total = 0;
  for (let r = 0; r < R; r++) {
    if (width[r] > maxRow * 1.25) {
      height[r] = (height[r] + ROW_ESTIMATE) * Math.ceil(width[r] / maxRow);
      width[r] = maxRow;
    }
    height[r] += ROW_ESTIMATE;
    total += height[r];
  }
  if (total < options.wrapFrom) return null;
  const wanted = countColumns(height, width, total, options.aspect);
  if (wanted < 2) return null;

  // Tensors that cross each boundary between ranks, by sweeping where each starts and ends.
  const cross = new Int32Array(R + 1);
  const reach = new Map<number, [number, number]>();
  for (let e = 0; e < m; e++) {
    const a = Math.min(ranks.rank[flow.src[e]], ranks.rank[flow.dst[e]]);
    const b = Math.max(ranks.rank[flow.src[e]], ranks.rank[flow.dst[e]]);
    if (kind[flow.src[e]] === 1 || kind[flow.dst[e]] === 2) continue;
    const seen = reach.get(flow.net[e]);
    if (!seen) reach.set(flow.net[e], [a, b]);
    else {
      seen[0] = Math.min(seen[0], a);
      seen[1] = Math.max(seen[1], b);
    }
  }
  for (const [a, b] of reach.values()) {
    cross[a]++;
    cross[b]--;
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
        const cost = cross[r] + 4 * off * off * 4 + (left - sum < target * 0.5 ? 2 : 0);
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
  if (column0 < 2) return null;
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

/** How many columns come nearest to the wanted aspect, cut at equal heights. */
function countColumns(height: Float64Array, width: Float64Array, total: number, aspect: number): number {
  const most = Math.max(1, height.length >> 1);
  let best = 1;
  let least = Infinity;
  const tried = new Set<number>();
  const attempt = (k: number): number => {
    tried.add(k);
    const { wide, tall } = extentOf(height, width, total, k);
    const off = Math.abs(Math.log(wide / tall / aspect));
    if (off < least) {
      least = off;
      best = k;
    }
    return wide;
  };
  let k = 1;
  for (let i = 0; i < 12 && !tried.has(k); i++) {
    const wide = attempt(k);
    k = Math.max(1, Math.min(most, Math.round(Math.sqrt((aspect * total) / (wide / k)))));
  }
  // Columns differ in width, so the estimate may stop one short of the best.
  for (const near of [best - 1, best + 1]) if (near >= 1 && near <= most && !tried.has(near)) attempt(near);
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

/** One tensor that goes from one column to another: down, under, up the gap before the target, in. */
interface Connector {
  readonly from: number;
  readonly to: number;
  exit: number; // block index of its port in the source column's flow; -1 when it starts at an input port
  entry: number; // block index of its port in the target column's flow
  track: number;
  readonly input: number; // the input port it starts at, or -1
}

interface SubFlow {
  readonly blocks: Ints; // original block, or -1 for a connector's port
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
    blocks: new Ints(), kind: new Ints(), src: new Ints(), dst: new Ints(), leave: new Floats(), enter: new Floats(), net: new Ints(),
  }));
  const local = new Int32Array(n);
  for (let v = 0; v < n; v++) {
    const s = subs[cut.of[v]];
    local[v] = s.blocks.push(v);
    s.kind.push(flow.kind[v]);
  }
  const connect = (s: SubFlow, a: number, b: number, e: number, leave: number, enter: number): number => {
    s.src.push(a);
    s.dst.push(b);
    s.leave.push(leave);
    s.enter.push(enter);
    s.net.push(flow.net[e]);
    return s.src.length - 1;
  };
  // For each edge: its piece in the source column, its connector, its piece in the target column.
  const head = new Int32Array(m).fill(-1);
  const tail = new Int32Array(m).fill(-1);
  const via = new Int32Array(m).fill(-1);
  const connectors: Connector[] = [];
  const byKey = new Map<string, number>();
  const exits = new Map<string, number>(); // edges into the exit port, one for each source and net
  for (let e = 0; e < m; e++) {
    const a = cut.of[flow.src[e]];
    const b = cut.of[flow.dst[e]];
    if (a === b) {
      head[e] = connect(subs[a], local[flow.src[e]], local[flow.dst[e]], e, flow.leave[e], flow.enter[e]);
      continue;
    }
    if (flow.kind[flow.dst[e]] === 2) {
      // An output made in an earlier column than its twin: it leaves at its own column's bottom.
      head[e] = -2;
      continue;
    }
    const input = flow.kind[flow.src[e]] === 1 ? flow.src[e] : -1;
    const key = `${flow.net[e]},${a},${b},${input}`;
    let k = byKey.get(key);
    if (k === undefined) {
      k = connectors.length;
      byKey.set(key, k);
      const c: Connector = { from: a, to: b, exit: -1, entry: -1, track: 0, input };
      if (input < 0) {
        c.exit = subs[a].blocks.push(-1);
        subs[a].kind.push(2);
      }
      c.entry = subs[b].blocks.push(-1);
      subs[b].kind.push(1);
      connectors.push(c);
    }
    via[e] = k;
    const c = connectors[k];
    if (input < 0) {
      const exitKey = `${k},${flow.src[e]}`;
      let h = exits.get(exitKey);
      if (h === undefined) {
        h = connect(subs[a], local[flow.src[e]], c.exit, e, flow.leave[e], 0);
        exits.set(exitKey, h);
      }
      head[e] = h;
    }
    tail[e] = connect(subs[b], c.entry, local[flow.dst[e]], e, 0, flow.enter[e]);
  }
  const laid: Arrangement[] = [];
  for (const s of subs) {
    const sub = toFlow(flow, s);
    laid.push(layColumn(sub, assignRanks(sub, work), work, maxRow));
    yield [laid.length, C];
  }

  // Tracks: connectors into one column stand side by side in the gap before it.
  const tracks = new Int32Array(C);
  for (const c of connectors) if (c.input < 0) c.track = tracks[c.to]++;
  let most = 0;
  for (let c = 0; c < C; c++) most = Math.max(most, tracks[c]);
  const room = connectors.length > 0 ? 16 + Math.min(most, 8) * 5 : 0;
  const left = new Float64Array(C);
  let width = 0;
  let height = 0;
  for (let c = 0; c < C; c++) {
    left[c] = width + (c > 0 || tracks[c] > 0 ? COLUMN_GAP : 0) + tracks[c] * TRACK;
    width = left[c] + laid[c].width;
    height = Math.max(height, laid[c].height);
  }
  const x = new Float32Array(n);
  const y = new Float32Array(n);
  const bottom = room + height;
  for (let c = 0; c < C; c++) {
    const s = subs[c];
    for (let i = 0; i < s.blocks.length; i++) {
      const v = s.blocks.data[i];
      if (v < 0) continue;
      x[v] = left[c] + laid[c].x[i];
      y[v] = flow.kind[v] === 1 ? 0 : flow.kind[v] === 2 ? bottom + room : room + laid[c].y[i];
    }
  }
  const points = new Floats(m * 12);
  const pathStart = new Int32Array(m + 1);
  const push = (px: number, py: number, bend: number): void => {
    points.push(px);
    points.push(py);
    points.push(bend);
  };
  const copy = (c: number, e: number): void => {
    const a = laid[c];
    for (let p = a.pathStart[e]; p < a.pathStart[e + 1]; p++) {
      push(left[c] + a.points[3 * p], room + a.points[3 * p + 1], a.points[3 * p + 2]);
    }
  };
  for (let e = 0; e < m; e++) {
    const s = flow.src[e];
    const t = flow.dst[e];
    const a = cut.of[s];
    const b = cut.of[t];
    if (head[e] === -2) {
      push(x[s] + flow.axis[s] + (flow.leave[e] || 0), y[s] + flow.bottom[s], 0);
      push(x[t], bottom + room, 0);
    } else if (via[e] < 0) {
      if (flow.kind[s] === 1) push(x[s], 0, 0);
      copy(a, head[e]);
      if (flow.kind[t] === 2) push(x[t], bottom + room, 0);
    } else {
      const c = connectors[via[e]];
      const xin = left[b] + laid[b].x[c.entry];
      if (c.input >= 0) {
        push(x[c.input], 0, 0);
        push(xin, room * 0.9, 0);
        push(xin, room, 0);
      } else {
        copy(a, head[e]);
        const xout = left[a] + laid[a].x[c.exit];
        const lane = left[b] - COLUMN_GAP / 2 - c.track * TRACK;
        const swing = 8 + Math.min(c.track, 8) * 5;
        push(xout, bottom, 0);
        push(lane, bottom, swing);
        push(lane, room, 0);
        push(xin, room, -swing);
      }
      copy(b, tail[e]);
    }
    pathStart[e + 1] = points.length / 3;
  }
  return { width, height: bottom + room, x, y, pathStart, points: points.take() };
}

function toFlow(flow: Flow, s: SubFlow): Flow {
  const n = s.blocks.length;
  const pick = (a: Float32Array): Float32Array => {
    const out = new Float32Array(n);
    for (let i = 0; i < n; i++) if (s.blocks.data[i] >= 0) out[i] = a[s.blocks.data[i]];
    return out;
  };
  return {
    n, kind: Uint8Array.from(s.kind.take()), w: pick(flow.w), h: pick(flow.h), axis: pick(flow.axis), top: pick(flow.top),
    bottom: pick(flow.bottom), stem: pick(flow.stem), m: s.src.length, src: s.src.take(), dst: s.dst.take(),
    leave: s.leave.take(), enter: s.enter.take(), net: s.net.take(),
  };
}
