/** What stands in the rows beside the blocks: short skipping edges as bends, long ones as lanes. */

import { bucket, type Csr } from "../base/csr";
import { Ints } from "../base/grow";
import type { Flow, Work } from "./flow";
import type { Pulls } from "./place";
import type { Ranks } from "./rank";
import type { Links, Rows } from "./rows";

/** An edge that skips more rows than this runs in a lane at the side: bends must not multiply work. */
const MAX_BENDS = 6;
/** In a drawing that is looked at closely (up to so many blocks) it may hug its block for this long. */
const FEW = 2500;
const MAX_BENDS_FEW = 200;
/** Room that a bend takes in its row. */
const BEND_ROOM = 14;

/**
 * A port far from its block's middle does not pull: wide groups have their input at the left and their
 * output at the right, and a chain of them aligned by ports would run off sideways. NaN (free) is the middle.
 */
const near = (offset: number, follows: boolean): number => (Math.abs(offset) < 90 || follows ? offset || 0 : 0);

export interface Cells {
  readonly rows: Rows;
  readonly up: Pulls;
  readonly down: Pulls;
  /** Cells that edge e passes, bends[bendStart[e] .. bendStart[e + 1]), top to bottom. */
  readonly bendStart: Int32Array;
  readonly bends: Int32Array;
  /** 1: drawn through neighbouring rows; 2: drawn in a lane; 3: drawn upwards. */
  readonly route: Uint8Array;
}

/** The rows of a column: those of the ranks, with wide ranks cut into several. */
export interface SplitRows {
  readonly rank: Int32Array;
  readonly count: number;
  /** Rows that are part of one rank cut into several. */
  readonly split: Uint8Array;
  /** For blocks of such a rank, a number that grows along the rows and, at one place, from row to row. */
  readonly along: Int32Array;
  /** How wide a row may become. */
  readonly wide: number;
}

/** Whether edges may run between the boxes of the ranks that were cut: not where they would outweigh them. */
function throughFields(flow: Flow, ranks: Ranks, rows: SplitRows): boolean {
  let passed = 0;
  let fields = 0;
  for (const s of rows.split) fields += s;
  for (let e = 0; e < flow.m; e++) {
    const [a, b] = [rows.rank[flow.src[e]], rows.rank[flow.dst[e]]];
    if (!ranks.back[e] && b - a > 1 && (rows.split[a] || rows.split[b])) passed += b - a - 1;
  }
  return fields > 0 && (passed / fields) * BEND_ROOM <= rows.wide * MOST_WIRES;
}

/** The share of a row's width that edges passing between its boxes may take. */
const MOST_WIRES = 0.75;

/**
 * `strand` names, for each bend of each edge in order, the strand that it is part of: edges of one tensor that are in one strand
 * share a bend. Without it all edges of a tensor are one strand as long as they go on.
 */
export function buildCells(
  flow: Flow,
  ranks: Ranks,
  rows: SplitRows,
  work: Work,
  strand: Int32Array | null = null,
): Cells {
  const { n, m, src, dst } = flow;
  const { rank, split } = rows;
  const route = new Uint8Array(m);
  const cellRow = new Ints(n * 2);
  const along = new Ints(n * 2);
  for (let v = 0; v < n; v++) {
    cellRow.push(rank[v]);
    along.push(rows.along[v]);
  }
  const bendStart = new Int32Array(m + 1);
  const count = new Int32Array(m);
  const most = n <= FEW ? MAX_BENDS_FEW : MAX_BENDS;
  const through = throughFields(flow, ranks, rows);
  const inField = (e: number): boolean => (split[rank[src[e]]] | split[rank[dst[e]]]) === 1;
  let budget = (n <= FEW ? 8 : 3) * n + 64;
  for (let e = 0; e < m; e++) {
    const span = rank[dst[e]] - rank[src[e]];
    if (ranks.back[e] || span < 1) route[e] = 3;
    else if (span === 1) route[e] = 1;
    else if (span - 1 <= most && (through || !inField(e)) && budget >= span - 1) {
      route[e] = 1;
      count[e] = span - 1;
      budget -= span - 1;
    } else route[e] = 2;
  }
  for (let e = 0; e < m; e++) bendStart[e + 1] = bendStart[e] + count[e];
  const bends = new Int32Array(bendStart[m]);
  const above = new Ints(m * 2); // links: upper cell, lower cell, edge that made it, whether it is the first or last stretch
  const under = new Ints(m * 2);
  const linkEdge = new Ints(m * 2);
  // Edges of one tensor share their bends: a chain is kept for the edges of each source. Between the boxes of a
  // field each goes its own way, beside the one that it is for: a common one would cross all that comes out.
  for (let v = 0; v < n; v++) {
    const known = new Map<number, number>();
    for (let i = ranks.outs.offsets[v]; i < ranks.outs.offsets[v + 1]; i++) {
      const e = ranks.outs.values[i];
      if (route[e] !== 1) continue;
      let from = v;
      const own = inField(e);
      const beside = rows.along[split[rank[dst[e]]] ? dst[e] : src[e]];
      for (let k = 0; k < count[e]; k++) {
        const name = own ? m + e : strand ? strand[bendStart[e] + k] : flow.net[e];
        const key = name * rows.count + k;
        let cell = known.get(key);
        if (cell === undefined) {
          cell = cellRow.push(rank[v] + 1 + k);
          known.set(key, cell);
          along.push(own ? beside : 0);
          above.push(from);
          under.push(cell);
          linkEdge.push(e);
          work.dummies++;
        }
        from = cell;
        bends[bendStart[e] + k] = from;
      }
      above.push(from);
      under.push(dst[e]);
      linkEdge.push(e);
    }
  }
  const cells = cellRow.length;
  const row = cellRow.take();
  const a = above.take();
  const b = under.take();
  // Where a link ends along a block: at its port, or in its middle.
  const share = (v: number, offset: number): number =>
    v >= n || flow.loose || flow.w[v] <= 0 || Number.isNaN(offset)
      ? 0.5
      : Math.min(0.99, Math.max(0.01, (flow.axis[v] + offset) / flow.w[v]));
  const upper = new Float32Array(a.length);
  const lower = new Float32Array(a.length);
  for (let l = 0; l < a.length; l++) {
    upper[l] = share(a[l], a[l] < n ? flow.leave[linkEdge.data[l]] : NaN);
    lower[l] = share(b[l], b[l] < n ? flow.enter[linkEdge.data[l]] : NaN);
  }
  const byLower = sorted(bucket(b, cells), lower);
  const byUpper = sorted(bucket(a, cells), upper);
  // A box with nothing above (below) it follows what it feeds (reads), and lets that follow the rest of the flow.
  const ends = (v: number, upwards: boolean): boolean =>
    v < n &&
    flow.kind[v] === 0 &&
    (upwards ? byLower : byUpper).offsets[v] === (upwards ? byLower : byUpper).offsets[v + 1];
  const goesOn = new Uint8Array(cells);
  for (let l = 0; l < a.length; l++) {
    if (!ends(a[l], true)) goesOn[b[l]] |= 1;
    if (!ends(b[l], false)) goesOn[a[l]] |= 2;
  }
  const pulls = (links: Int32Array, upwards: boolean): Omit<Pulls, "cell"> => {
    const wish = new Float32Array(links.length);
    const run = new Float32Array(links.length);
    const weight = new Float32Array(links.length);
    for (let i = 0; i < links.length; i++) {
      const l = links[i];
      const e = linkEdge.data[l];
      const port = (a[l] < n && flow.kind[a[l]] !== 0) || (b[l] < n && flow.kind[b[l]] !== 0);
      const follows = port || ends(upwards ? b[l] : a[l], !upwards);
      const leave = a[l] < n ? near(flow.leave[e], follows) : 0;
      const enter = b[l] < n ? near(flow.enter[e], follows) : 0;
      wish[i] = upwards ? leave - enter : enter - leave;
      const lean = ((b[l] < n && flow.enter[e]) || 0) - ((a[l] < n && flow.leave[e]) || 0);
      run[i] = upwards ? -lean : lean;
      // Chains of boxes stay straight and bends stay straight; where one meets the other, the bends give way.
      const bent = (a[l] >= n ? 1 : 0) + (b[l] >= n ? 1 : 0);
      const own = upwards ? b[l] >= n : a[l] >= n;
      // Ports follow the boxes, not the other way round.
      const ownPort = flow.kind[upwards ? b[l] : a[l]] !== 0;
      const aside = upwards ? ends(a[l], true) && goesOn[b[l]] & 1 : ends(b[l], false) && goesOn[a[l]] & 2;
      weight[i] = port ? (ownPort ? 1 : 0.02) : aside ? 0.02 : bent === 2 ? 8 : bent === 1 ? (own ? 0.15 : 0.05) : 20;
    }
    return { wish, run, weight };
  };
  const [upSlots, downSlots] = [slotsOf(byUpper, upper, cells), slotsOf(byLower, lower, cells)];
  const linksOf = (
    by: Csr,
    to: Int32Array,
    own: Float32Array,
    far: Float32Array,
    slot: Int32Array,
    points: Int32Array,
  ): Links => ({
    offsets: by.offsets,
    values: by.values.map((l) => to[l]),
    own: Float32Array.from(by.values, (l) => own[l]),
    far: Float32Array.from(by.values, (l) => far[l]),
    slot: by.values.map((l) => slot[l]),
    points,
  });
  const up = linksOf(byLower, a, lower, upper, upSlots.slot, downSlots.points);
  const down = linksOf(byUpper, b, upper, lower, downSlots.slot, upSlots.points);
  const list = bucket(row, rows.count);
  const fixed = new Uint8Array(rows.count);
  const place = along.take();
  const sortRow = (r: number, key: (v: number) => number): void => {
    const part = list.values.subarray(list.offsets[r], list.offsets[r + 1]);
    part.set(Array.from(part).sort((p, q) => key(p) - key(q) || p - q));
  };
  for (let r = 0; r < rows.count; r++) if (split[r]) sortRow(r, (v) => place[v]);
  const { portAt } = flow;
  if (portAt) {
    for (const r of new Set([0, rows.count - 1])) {
      const ports = list.values.subarray(list.offsets[r], list.offsets[r + 1]);
      if (ports.some((v) => v >= n || flow.kind[v] === 0 || Number.isNaN(portAt[v]))) continue;
      sortRow(r, (v) => portAt[v]);
      fixed[r] = 1;
    }
  }
  return {
    rows: { boxes: n, cells, rows: rows.count, row, list, fixed, place: portAt, up, down },
    up: { cell: up, ...pulls(byLower.values, true) },
    down: { cell: down, ...pulls(byUpper.values, false) },
    bendStart,
    bends,
    route,
  };
}

/** The links of each cell from left to right along it. */
function sorted(by: Csr, along: Float32Array): Csr {
  const { offsets, values } = by;
  for (let v = 0; v + 1 < offsets.length; v++) {
    if (offsets[v + 1] - offsets[v] < 2) continue;
    const part = values.subarray(offsets[v], offsets[v + 1]);
    part.set(Array.from(part).sort((p, q) => along[p] - along[q] || p - q));
  }
  return by;
}

/** Numbers the points where links end on each cell, and counts them. */
function slotsOf(by: Csr, along: Float32Array, cells: number): { slot: Int32Array; points: Int32Array } {
  const slot = new Int32Array(by.values.length);
  const points = new Int32Array(cells);
  for (let v = 0; v < cells; v++) {
    for (let i = by.offsets[v]; i < by.offsets[v + 1]; i++) {
      if (i === by.offsets[v] || along[by.values[i]] !== along[by.values[i - 1]]) points[v]++;
      slot[by.values[i]] = points[v] - 1;
    }
  }
  return { slot, points };
}
