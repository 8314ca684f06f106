/** What stands in the rows beside the blocks: short skipping edges as bends, long ones as lanes. */

import { bucket } from "../base/csr";
import { Ints } from "../base/grow";
import type { Flow, Work } from "./flow";
import type { Rows } from "./order";
import type { Pulls } from "./place";
import type { Ranks } from "./rank";

/** An edge that skips more rows than this runs in a lane at the side: bends must not multiply work. */
const MAX_BENDS = 6;
/** In a drawing that is looked at closely (up to so many blocks) it may hug its block for this long. */
const FEW = 250;
const MAX_BENDS_FEW = 40;

/**
 * A port far from its block's middle does not pull: wide groups have their input at the left and their
 * output at the right, and a chain of them aligned by ports would run off sideways. NaN (free) is the middle.
 */
const near = (offset: number, port: boolean): number => (Math.abs(offset) < 90 || port ? offset || 0 : 0);

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

/** `rank` may have been split into more rows than `ranks` says; `split` marks rows made by splitting. */
export function buildCells(flow: Flow, ranks: Ranks, rank: Int32Array, rowCount: number, split: Uint8Array, work: Work): Cells {
  const { n, m, src, dst } = flow;
  const route = new Uint8Array(m);
  const cellRow = new Ints(n * 2);
  for (let v = 0; v < n; v++) cellRow.push(rank[v]);
  const bendStart = new Int32Array(m + 1);
  const count = new Int32Array(m);
  const most = n <= FEW ? MAX_BENDS_FEW : MAX_BENDS;
  let budget = (n <= FEW ? 8 : 3) * n + 64;
  for (let e = 0; e < m; e++) {
    const span = rank[dst[e]] - rank[src[e]];
    if (ranks.back[e] || span < 1) route[e] = 3;
    else if (span === 1) route[e] = 1;
    else if (span - 1 <= most && !split[rank[src[e]]] && !split[rank[dst[e]]] && budget >= span - 1) {
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
  // Edges of one tensor share their bends: a chain is kept for the edges of each source.
  for (let v = 0; v < n; v++) {
    const chains = new Map<number, number[]>();
    for (let i = ranks.outs.offsets[v]; i < ranks.outs.offsets[v + 1]; i++) {
      const e = ranks.outs.values[i];
      if (route[e] !== 1) continue;
      let from = v;
      if (count[e] > 0) {
        let chain = chains.get(flow.net[e]);
        if (!chain) chains.set(flow.net[e], (chain = []));
        for (let k = 0; k < count[e]; k++) {
          if (k === chain.length) {
            const cell = cellRow.push(rank[v] + 1 + k);
            chain.push(cell);
            above.push(from);
            under.push(cell);
            linkEdge.push(e);
            work.dummies++;
          }
          from = chain[k];
          bends[bendStart[e] + k] = from;
        }
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
  const byLower = bucket(b, cells);
  const byUpper = bucket(a, cells);
  const pulls = (links: Int32Array, upwards: boolean): Pulls & { values: Int32Array } => {
    const values = new Int32Array(links.length);
    const wish = new Float32Array(links.length);
    const weight = new Float32Array(links.length);
    for (let i = 0; i < links.length; i++) {
      const l = links[i];
      const e = linkEdge.data[l];
      const port = (a[l] < n && flow.kind[a[l]] !== 0) || (b[l] < n && flow.kind[b[l]] !== 0);
      const leave = a[l] < n ? near(flow.leave[e], port) : 0;
      const enter = b[l] < n ? near(flow.enter[e], port) : 0;
      values[i] = upwards ? a[l] : b[l];
      wish[i] = upwards ? leave - enter : enter - leave;
      // Chains of boxes stay straight and bends stay straight; where one meets the other, the bends give way.
      const bent = (a[l] >= n ? 1 : 0) + (b[l] >= n ? 1 : 0);
      const own = upwards ? b[l] >= n : a[l] >= n;
      // Ports follow the boxes, not the other way round.
      const ownPort = flow.kind[upwards ? b[l] : a[l]] !== 0;
      weight[i] = port ? (ownPort ? 1 : 0.02) : bent === 2 ? 8 : bent === 1 ? (own ? 0.15 : 0.05) : 20;
    }
    return { cell: { offsets: (upwards ? byLower : byUpper).offsets, values }, wish, weight, values };
  };
  const up = pulls(byLower.values, true);
  const down = pulls(byUpper.values, false);
  const list = bucket(row, rowCount);
  return {
    rows: { boxes: n, cells, rows: rowCount, row, list, up: up.cell, down: down.cell },
    up, down, bendStart, bends, route,
  };
}
