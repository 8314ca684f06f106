/** The row of each block: producers above consumers, no row skipped without need. */

import { bucket, type Csr } from "../base/csr";
import { components } from "../base/scc";
import type { Flow, Work } from "./flow";

export interface Ranks {
  readonly rank: Int32Array;
  readonly count: number;
  /** 1 for edges that would close a cycle; they run upwards at the side. */
  readonly back: Uint8Array;
  readonly ins: Csr;
  readonly outs: Csr;
}

export function assignRanks(flow: Flow, work: Work): Ranks {
  const { n, m, src, dst, kind } = flow;
  const ins = bucket(dst, n);
  const outs = bucket(src, n);
  const back = new Uint8Array(m);
  let order = topological(flow, ins, back);
  if (back.includes(1)) {
    // Cut cycles where they run against the given order, which follows the computation.
    back.fill(0);
    markBack(flow, outs, back);
    order = topological(flow, ins, back);
  }
  work.ranks += n + m;

  let ports = 0;
  for (let v = 0; v < n; v++) if (kind[v] === 1) ports = 1;
  const rank = new Int32Array(n);
  let last = 0;
  for (let k = 0; k < n; k++) {
    const v = order[k];
    if (kind[v] === 1) continue;
    let r = ports;
    for (let i = ins.offsets[v]; i < ins.offsets[v + 1]; i++) {
      const e = ins.values[i];
      if (!back[e] && rank[src[e]] + 1 > r) r = rank[src[e]] + 1;
    }
    rank[v] = r;
    if (kind[v] === 0 && r > last) last = r;
  }
  // A block with more outputs than inputs (a constant, above all) comes down to its consumers. An input that
  // many read counts for nothing: far from it, its name stands beside the block instead of an edge.
  const side = sideFeeds(flow, order, ins, outs, back, rank, last);
  for (let k = n - 1; k >= 0; k--) {
    const v = order[k];
    if (kind[v] !== 0) continue;
    let low = last + 1;
    let used = 0;
    for (let i = outs.offsets[v]; i < outs.offsets[v + 1]; i++) {
      const e = outs.values[i];
      if (back[e] || kind[dst[e]] === 2) continue;
      used++;
      if (rank[dst[e]] < low) low = rank[dst[e]];
    }
    const reads = side[v] ? 0 : ins.offsets[v + 1] - ins.offsets[v];
    if (used > 0 && low - 1 > rank[v] && used > reads) rank[v] = low - 1;
  }
  // Rows that everything has come down from are left out.
  const used = new Int32Array(last + 2);
  for (let v = 0; v < n; v++) if (kind[v] !== 2) used[rank[v]] = 1;
  for (let r = 0, at = 0; r <= last; r++) {
    const here = used[r];
    used[r] = at;
    at += here;
    if (r === last) last = at - 1;
  }
  let outPorts = 0;
  for (let v = 0; v < n; v++) {
    if (kind[v] !== 2) {
      rank[v] = used[rank[v]];
      continue;
    }
    outPorts = 1;
    rank[v] = last + 1;
  }
  return { rank, count: n === 0 ? 0 : last + 1 + outPorts, back, ins, outs };
}

/** A reader that could stand this many rows lower is far from what it is for; a tensor with so many of them stands by name there. */
const FAR = 4;
const MANY = 3;

/**
 * 1 for blocks that hang on nothing but inputs with many far readers: seeds, masks and positions made ready
 * for one consumer each. Query, key and value read one input too, but stand where they are: beside each other.
 */
function sideFeeds(
  flow: Flow,
  order: Int32Array,
  ins: Csr,
  outs: Csr,
  back: Uint8Array,
  rank: Int32Array,
  last: number,
): Uint8Array {
  const { n, m, src, dst, net, kind } = flow;
  const latest = new Int32Array(n).fill(last);
  for (let k = n - 1; k >= 0; k--) {
    const v = order[k];
    for (let i = outs.offsets[v]; i < outs.offsets[v + 1]; i++) {
      const e = outs.values[i];
      if (!back[e] && kind[dst[e]] === 0) latest[v] = Math.min(latest[v], latest[dst[e]] - 1);
    }
  }
  const far = new Map<number, number>();
  for (let e = 0; e < m; e++) if (latest[dst[e]] - rank[dst[e]] > FAR) far.set(net[e], (far.get(net[e]) ?? 0) + 1);
  const side = new Uint8Array(n);
  for (let k = 0; k < n; k++) {
    const v = order[k];
    const from = ins.offsets[v];
    const to = ins.offsets[v + 1];
    let all = to > from;
    for (let i = from; all && i < to; i++) {
      const e = ins.values[i];
      const p = src[e];
      all = !back[e] && (side[p] === 1 || (ins.offsets[p] === ins.offsets[p + 1] && (far.get(net[e]) ?? 0) >= MANY));
    }
    side[v] = all ? 1 : 0;
  }
  return side;
}

/** Producers first, otherwise in index order; edges met twice on one path are marked as back edges. */
function topological(flow: Flow, ins: Csr, back: Uint8Array): Int32Array {
  const { n, src } = flow;
  const out = new Int32Array(n);
  let done = 0;
  const state = new Uint8Array(n);
  const next = ins.offsets.slice(0, n);
  const stack = new Int32Array(n + 1);
  for (let s = 0; s < n; s++) {
    if (state[s] !== 0) continue;
    let top = 0;
    stack[top++] = s;
    state[s] = 1;
    while (top > 0) {
      const v = stack[top - 1];
      let pushed = false;
      while (next[v] < ins.offsets[v + 1]) {
        const e = ins.values[next[v]++];
        if (back[e]) continue;
        const p = src[e];
        if (state[p] === 1) back[e] = 1;
        else if (state[p] === 0) {
          state[p] = 1;
          stack[top++] = p;
          pushed = true;
          break;
        }
      }
      if (pushed) continue;
      top--;
      state[v] = 2;
      out[done++] = v;
    }
  }
  return out;
}

/** Marks edges inside a strongly connected component that do not go from a lower to a higher index. */
function markBack(flow: Flow, outs: Csr, back: Uint8Array): void {
  const { of } = components(flow.n, { offsets: outs.offsets, values: outs.values.map((e) => flow.dst[e]) });
  for (let e = 0; e < flow.m; e++) if (of[flow.src[e]] === of[flow.dst[e]] && flow.src[e] >= flow.dst[e]) back[e] = 1;
}
