/** A drawing bent in the middle: down at the left, up at the right, where skips lead from one side to the other (a U-Net). */

import { Floats } from "../base/grow";
import { layColumn } from "./column";
import type { Extent } from "./cuts";
import type { Arrangement, Flow, Work } from "./flow";
import { connect, newPart, type SubFlow, toFlow } from "./part";
import { assignRanks, type Ranks } from "./rank";

export interface Bend {
  /** The last rank of the way down. */
  readonly rank: number;
  /** Edges from the way down to the way up, from the outermost to the innermost. */
  readonly skips: readonly number[];
  readonly trunk: number;
}

/** Fewer skips are wrapped like other edges. */
const LEAST_SKIPS = 3;
/** Nobody follows a longer way down. */
const MOST_RANKS = 200;
/** Between the two ways, where skips run. */
const BETWEEN = 56;
/** How far below both ends the way turns. */
const TURN = 16;
/** Around an unfolded group on the way up, whose ports are above and below as everywhere: a lane beside it, and how far edges swing out to it. */
const LANE = 12;
const SWING = 10;
/** How far from its port a skip runs beside an unfolded group, and how far beside a box it runs straight. */
const ASIDE = 8;
const STRAIGHT = 14;

/**
 * Where to bend: one edge goes on from the last rank down to the first rank up, all others across that place are nested skips from
 * boxes that stand alone in their row to such boxes. The place with most skips, of several the one with equal heights below the innermost.
 */
export function chooseBend(flow: Flow, ranks: Ranks, { height, total }: Extent, highest: number): Bend | null {
  const { m, src, dst } = flow;
  const { rank, back, count } = ranks;
  if (count > MOST_RANKS || flow.kind.includes(1) || flow.kind.includes(2) || back.includes(1)) return null;
  const side = new Int32Array(count);
  for (let v = 0; v < flow.n; v++) side[rank[v]]++;
  let best: Bend | null = null;
  let off = Infinity;
  for (let r = 0; r + 1 < count; r++) {
    const skips: number[] = [];
    const trunk: number[] = [];
    for (let e = 0; e < m; e++) {
      if (rank[src[e]] > r || rank[dst[e]] <= r) continue;
      if (rank[src[e]] === r && rank[dst[e]] === r + 1) trunk.push(e);
      else skips.push(e);
    }
    const most = best?.skips.length ?? LEAST_SKIPS;
    if (trunk.length !== 1 || skips.length < most) continue;
    skips.sort((p, q) => rank[src[p]] - rank[src[q]]);
    const inner = skips[skips.length - 1];
    let below = 0;
    for (let k = rank[src[inner]] + 1; k < rank[dst[inner]]; k++) below += k <= r ? height[k] : -height[k];
    const uneven = Math.abs(below);
    if (skips.length === most && uneven >= off) continue;
    const nested = skips.every(
      (e, i) => i === 0 || (rank[src[e]] > rank[src[skips[i - 1]]] && rank[dst[e]] < rank[dst[skips[i - 1]]]),
    );
    if (!nested || !skips.every((e) => side[rank[src[e]]] === 1 && side[rank[dst[e]]] === 1)) continue;
    const above = height.subarray(0, r + 1).reduce((a, b) => a + b, 0);
    if (Math.max(above, total - above) > highest) continue;
    off = uneven;
    best = { rank: r, skips, trunk: trunk[0] };
  }
  return best;
}

/** One of the two ways, with y as it is on the page and how far each row from a given place on was moved down. */
interface Way {
  readonly part: SubFlow;
  readonly flow: Flow;
  readonly laid: Arrangement;
  readonly moved: { readonly from: number; readonly by: number }[];
}

export function layBent(flow: Flow, ranks: Ranks, bend: Bend, work: Work, maxRow: number): Arrangement {
  const { n, m, src, dst } = flow;
  const up = (v: number): boolean => ranks.rank[v] > bend.rank;
  const parts = [newPart(), newPart()];
  const local = new Int32Array(n);
  for (let v = 0; v < n; v++) {
    const p = parts[up(v) ? 1 : 0];
    local[v] = p.blocks.push(v);
    p.signs.push(-1);
    p.kind.push(0);
  }
  const within = new Int32Array(m).fill(-1);
  for (let e = 0; e < m; e++)
    if (up(src[e]) === up(dst[e]))
      within[e] = connect(
        parts[up(src[e]) ? 1 : 0],
        local[src[e]],
        local[dst[e]],
        flow.net[e],
        up(src[e]) ? NaN : flow.leave[e],
        up(src[e]) ? NaN : flow.enter[e],
      );
  const ways: Way[] = parts.map((part) => {
    const f = toFlow(flow, part);
    return { part, flow: f, laid: layColumn(f, assignRanks(f, work), work, maxRow), moved: [] };
  });
  const [down, rise] = ways;
  /** Top of a block before anything is moved: what rises is turned upside down. */
  const topOf = (v: number): number =>
    up(v) ? rise.laid.height - rise.laid.y[local[v]] - flow.h[v] : down.laid.y[local[v]];
  const leaves = (e: number): boolean => !Number.isNaN(flow.leave[e]);
  const enters = (e: number): boolean => !Number.isNaN(flow.enter[e]);
  /** Where a skip leaves and arrives: at the side of a box, under or over an unfolded group. */
  const from = (e: number): number => topOf(src[e]) + (leaves(e) ? flow.bottom[src[e]] + ASIDE : flow.h[src[e]] / 2);
  const to = (e: number): number => topOf(dst[e]) + (enters(e) ? flow.top[dst[e]] - ASIDE : flow.h[dst[e]] / 2);
  const moved = (way: Way, y: number): number => {
    for (const step of way.moved) if (y >= step.from) y += step.by;
    return y;
  };
  // Both ends of a skip stand at one height: the side that is higher up is moved down, from that row on; for the first one, all of it.
  let left = 0;
  let right = 0;
  for (const e of bend.skips) {
    const gap = from(e) + left - (to(e) + right);
    const [way, v, by] = gap < 0 ? [down, src[e], -gap] : [rise, dst[e], gap];
    way.moved.push({ from: e === bend.skips[0] ? 0 : topOf(v) - 0.25, by });
    if (gap < 0) left -= gap;
    else right += gap;
  }
  for (const way of ways) way.moved.reverse(); // from the bottom up: a place is still where it was when its step is looked at
  const gap = down.laid.width + BETWEEN;
  const x = new Float32Array(n);
  const y = new Float32Array(n);
  for (let v = 0; v < n; v++) {
    const way = up(v) ? rise : down;
    x[v] = way.laid.x[local[v]] + (up(v) ? gap : 0);
    y[v] = moved(way, topOf(v));
  }
  const points = new Floats(m * 12);
  const pathStart = new Int32Array(m + 1);
  const push = (px: number, py: number, b: number): void => {
    points.push(px);
    points.push(py);
    points.push(b);
  };
  const boxLeft = (v: number): number => x[v] + 2 * flow.axis[v] - flow.w[v]; // a box stands at the right end of its block
  const boxRight = (v: number): number => x[v] + flow.w[v];
  const top = (v: number): number => y[v] + flow.top[v];
  const bottom = (v: number): number => y[v] + flow.bottom[v];
  /** Up beside an unfolded group and over its border into its port. */
  const enterAbove = (e: number, turn: number): void => {
    const v = dst[e];
    push(boxLeft(v) - LANE, bottom(v), turn);
    push(boxLeft(v) - LANE, top(v), 0);
    push(x[v] + flow.axis[v] + flow.enter[e], top(v), -SWING);
  };
  for (let e = 0; e < m; e++) {
    const [s, t] = [src[e], dst[e]];
    if (e === bend.trunk) {
      push(x[s] + flow.axis[s] + (flow.leave[e] || 0), bottom(s), 0);
      if (enters(e)) enterAbove(e, TURN + flow.stem[s]);
      else push(x[t] + flow.axis[t], bottom(t), TURN + flow.stem[s]);
    } else if (within[e] < 0) {
      if (leaves(e)) push(x[s] + flow.axis[s] + flow.leave[e], bottom(s), 0);
      else push(boxRight(s), y[s] + flow.h[s] / 2, 0);
      if (enters(e)) push(x[t] + flow.axis[t] + flow.enter[e], top(t), 0);
      else {
        if (leaves(e)) push(boxLeft(t) - STRAIGHT, y[t] + flow.h[t] / 2, 0);
        push(boxLeft(t), y[t] + flow.h[t] / 2, 0);
      }
    } else {
      const way = up(s) ? rise : down;
      const { laid } = way;
      let [first, last] = [laid.pathStart[within[e]], laid.pathStart[within[e] + 1]];
      if (up(s) && leaves(e)) {
        push(x[s] + flow.axis[s] + flow.leave[e], bottom(s), 0);
        push(boxRight(s) + LANE, bottom(s), SWING);
        push(boxRight(s) + LANE, top(s), 0);
        first++;
      }
      if (up(s) && enters(e)) last--;
      for (let p = first; p < last; p++) {
        const py = laid.points[3 * p + 1];
        push(
          laid.points[3 * p] + (up(s) ? gap : 0),
          moved(way, up(s) ? laid.height - py : py),
          (up(s) ? -1 : 1) * laid.points[3 * p + 2],
        );
      }
      if (up(s) && enters(e)) enterAbove(e, 0);
    }
    pathStart[e + 1] = points.length / 3;
  }
  let height = 0;
  for (let v = 0; v < n; v++) height = Math.max(height, y[v] + flow.h[v]);
  return {
    width: gap + rise.laid.width + (flow.leave.some((v, e) => up(src[e]) && !Number.isNaN(v)) ? LANE + 2 : 0),
    height: height + TURN + flow.stem[src[bend.trunk]],
    x,
    y,
    pathStart,
    points: points.take(),
    tangles: down.laid.tangles + rise.laid.tangles,
    signs: [],
  };
}
