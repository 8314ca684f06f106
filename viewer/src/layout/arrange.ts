/** Columns of a drawing: one, unless it could not be read in the window; then cut where few tensors cross. */

import { Floats } from "../base/grow";
import { chooseBend, layBent } from "./bent";
import { CLOSER, layColumn } from "./column";
import { type ArrangeOptions, chooseColumns, COLUMN_GAP, type Columns, extentOf, ROW_ESTIMATE, tooHigh } from "./cuts";
import { ENTRY, EXIT, type Arrangement, type Flow, type Work } from "./flow";
import { connect, newPart, type SubFlow, toFlow } from "./part";
import { assignRanks } from "./rank";
import { READABLE } from "./style";

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
  const extent = extentOf(flow, ranks, maxRow);
  if (!tooHigh(extent, options)) return layColumn(flow, ranks, work, maxRow);
  // What does not fit by a little comes closer together; skips around the middle make it a U; the rest wraps.
  if (extent.total - (CLOSER + GUESSED) * ranks.count < options.height / READABLE) {
    const close = layColumn(flow, ranks, work, maxRow, CLOSER);
    if (close.height < options.height / READABLE) return close;
  }
  const bend = chooseBend(flow, ranks, extent, HIGHEST_BENT * (options.height / READABLE));
  if (bend) return layBent(flow, ranks, bend, work, maxRow);
  const cut = chooseColumns(flow, ranks, extent, options);
  return cut ? yield* layColumns(flow, cut, work, maxRow) : layColumn(flow, ranks, work, maxRow, CLOSER);
}

/** Windows that each side of a U may be high: with much unfolded, columns are read better. */
const HIGHEST_BENT = 2;
/** Rows are at least this much lower than was guessed where no shapes are written between them. */
const GUESSED = 8;

/** One tensor that is read in other columns than its own: a sign where it ends, the same where it goes on. */
interface Connector {
  readonly number: number;
  readonly exit: number; // block index of its sign in the source column's flow
  readonly leaves: Map<number, number>; // by source block: the edge into that sign
  readonly entries: Map<number, number>; // by column: block index of the sign there
}

function* layColumns(flow: Flow, cut: Columns, work: Work, maxRow: number): Steps<Arrangement> {
  const { n, m } = flow;
  const C = cut.count;
  const subs: SubFlow[] = Array.from({ length: C }, newPart);
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
      head[e] = connect(subs[a], local[s], local[t], flow.net[e], flow.leave[e], flow.enter[e]);
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
    if (h === undefined) c.leaves.set(s, (h = connect(subs[a], local[s], c.exit, flow.net[e], flow.leave[e], 0)));
    head[e] = h;
    let entry = c.entries.get(b);
    if (entry === undefined) c.entries.set(b, (entry = addSign(b, s, e, ENTRY, c.number)));
    tail[e] = connect(subs[b], entry, local[t], flow.net[e], 0, flow.enter[e]);
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
