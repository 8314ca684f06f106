/** Shorter edges inside given rows: strands of cells in line are moved sideways while more edges become shorter than longer. */

import { number, type Rows } from "./rows";
import { between } from "./place";

/** Edges end this near to each other: they are in line. */
const IN_LINE = 0.5;
const ROUNDS = 8;
/** Strands that may be pushed along by one that moves, and cells in each: the trunk of a long drawing moves by itself or not at all. */
const PUSHED = 8;
const PUSHED_CELLS = 64;
/** An edge between two boxes counts this much more than one that passes: of two it is the one that runs straight. */
const BOX_LINK = 1.2;
/** How much wider a drawing may become on each side for edges that run straight. */
const WIDER = 24;
/** Each round visits all cells and links. */
const MOST = 20_000;

/**
 * What `placeRows` leaves minimises squares, which shares a distance among all edges of a merge; people and
 * rulers see lengths. Moves keep the order, the spacing and, but for a little, the outline of the whole, so that a chain of wide groups with
 * their output at one side cannot run off. `run` is where each link of `g.down` would be straight: upper cell's x minus lower's.
 */
export function shorten(
  g: Rows,
  x: Float64Array,
  left: Float32Array,
  right: Float32Array,
  gap: Float32Array,
  run: Float32Array,
): void {
  if (g.cells > MOST) return;
  const at = new Int32Array(g.cells);
  let low = Infinity;
  let high = -Infinity;
  for (let r = 0; r < g.rows; r++) number(g, r, at);
  for (let v = 0; v < g.cells; v++) {
    low = Math.min(low, x[v] - left[v]);
    high = Math.max(high, x[v] + right[v]);
  }
  low -= WIDER;
  high += WIDER;
  const links = linksOf(g, run);
  for (let round = 0; round < ROUNDS; round++) {
    const strands = findStrands(g, x, links);
    let moved = false;
    for (let s = 0; s + 1 < strands.offsets.length; s++) {
      for (const to of [1, -1]) {
        const distance = tryMove(s, to);
        if (distance === 0) continue;
        moved = true;
        break;
      }
    }
    if (!moved) return;

    function tryMove(start: number, to: number): number {
      const set = [start];
      const inside = new Set(set);
      for (;;) {
        let rate = 0;
        let reach = Infinity;
        let room = Infinity;
        let wall = -1;
        for (const s of set) {
          for (let i = strands.offsets[s]; i < strands.offsets[s + 1]; i++) {
            const v = strands.values[i];
            for (let k = links.offsets[v]; k < links.offsets[v + 1]; k++) {
              const u = links.values[k];
              if (inside.has(strands.of[u])) continue;
              const pull = (x[u] + links.run[k] - x[v]) * to;
              if (Math.abs(pull) < IN_LINE) rate -= links.weight[k];
              else if (pull > 0) {
                rate += links.weight[k];
                reach = Math.min(reach, pull);
              } else rate -= links.weight[k];
            }
            const r = g.row[v];
            const j = g.list.offsets[r] + at[v] + to;
            if (j < g.list.offsets[r] || j >= g.list.offsets[r + 1]) {
              room = Math.min(room, to > 0 ? high - x[v] - right[v] : x[v] - left[v] - low);
              continue;
            }
            const w = g.list.values[j];
            if (inside.has(strands.of[w])) continue;
            const free =
              to > 0
                ? x[w] - left[w] - (x[v] + right[v]) - between(gap, v, w)
                : x[v] - left[v] - (x[w] + right[w]) - between(gap, w, v);
            if (free >= room) continue;
            room = free;
            wall = strands.of[w];
          }
        }
        if (rate < 0.1 || reach === Infinity) return 0;
        const distance = Math.min(reach, room);
        if (distance > IN_LINE) {
          for (const s of set)
            for (let i = strands.offsets[s]; i < strands.offsets[s + 1]; i++) x[strands.values[i]] += to * distance;
          return distance;
        }
        if (wall < 0 || set.length > PUSHED || inside.has(wall)) return 0;
        if (strands.offsets[wall + 1] - strands.offsets[wall] > PUSHED_CELLS) return 0;
        set.push(wall);
        inside.add(wall);
      }
    }
  }
}

interface Pulled {
  readonly offsets: Int32Array;
  readonly values: Int32Array;
  readonly run: Float32Array;
  readonly weight: Float32Array;
}

/** The links of each cell, up and down, with what they ask of it. */
function linksOf(g: Rows, run: Float32Array): Pulled {
  const offsets = new Int32Array(g.cells + 1);
  for (let v = 0; v < g.cells; v++) {
    for (let k = g.down.offsets[v]; k < g.down.offsets[v + 1]; k++) {
      offsets[v + 1]++;
      offsets[g.down.values[k] + 1]++;
    }
  }
  for (let v = 0; v < g.cells; v++) offsets[v + 1] += offsets[v];
  const at = offsets.slice(0, g.cells);
  const values = new Int32Array(offsets[g.cells]);
  const out = new Float32Array(values.length);
  const weight = new Float32Array(values.length);
  for (let v = 0; v < g.cells; v++) {
    for (let k = g.down.offsets[v]; k < g.down.offsets[v + 1]; k++) {
      const u = g.down.values[k];
      const w = v < g.boxes && u < g.boxes ? BOX_LINK : 1;
      values[at[v]] = u;
      weight[at[v]] = w;
      out[at[v]++] = run[k];
      values[at[u]] = v;
      weight[at[u]] = w;
      out[at[u]++] = -run[k];
    }
  }
  return { offsets, values, run: out, weight };
}

interface Strands {
  readonly of: Int32Array;
  readonly offsets: Int32Array;
  readonly values: Int32Array;
}

/** Cells joined by links that are straight. */
function findStrands(g: Rows, x: Float64Array, links: Pulled): Strands {
  const of = new Int32Array(g.cells).fill(-1);
  const offsets = [0];
  const values = new Int32Array(g.cells);
  let n = 0;
  for (let v = 0; v < g.cells; v++) {
    if (of[v] >= 0) continue;
    const s = offsets.length - 1;
    of[v] = s;
    const first = n;
    values[n++] = v;
    for (let i = first; i < n; i++) {
      const c = values[i];
      for (let k = links.offsets[c]; k < links.offsets[c + 1]; k++) {
        const u = links.values[k];
        if (of[u] >= 0 || Math.abs(x[u] + links.run[k] - x[c]) >= IN_LINE) continue;
        of[u] = s;
        values[n++] = u;
      }
    }
    offsets.push(n);
  }
  return { of, offsets: Int32Array.from(offsets), values };
}
