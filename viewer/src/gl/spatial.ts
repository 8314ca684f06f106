/** What of a large group is looked at in a frame: a loose grid by size, and blocks for the far view. */

import { bucket, type Csr } from "../base/csr";
import type { Shape } from "../layout/scene_update";

/** Below this many members a plain walk is faster than any index. */
const SMALL = 160;

interface Level {
  readonly size: number; // cell side
  readonly cols: number;
  readonly rows: number;
  readonly items: Int32Array; // all of this level
  readonly cells: Csr; // positions in `items` by cell
}

/** Rectangles found by place: each lies in the one cell, of the level of its size, that holds its middle. */
export class RectIndex {
  private readonly levels: Level[] = [];

  constructor(
    private readonly rect: Float32Array, // x0 y0 x1 y1
    width: number,
    height: number,
  ) {
    const n = rect.length / 4;
    const byLevel = new Map<number, number[]>();
    for (let i = 0; i < n; i++) {
      const side = Math.max(rect[4 * i + 2] - rect[4 * i], rect[4 * i + 3] - rect[4 * i + 1], 64);
      const level = Math.ceil(Math.log2(side)) + 1;
      const list = byLevel.get(level);
      if (list) list.push(i);
      else byLevel.set(level, [i]);
    }
    for (const [level, list] of [...byLevel].sort((a, b) => a[0] - b[0])) {
      let size = 2 ** level;
      // A level of few rectangles over a wide field needs no more cells than rectangles.
      while (Math.ceil(width / size + 1) * Math.ceil(height / size + 1) > list.length * 4 + 64) size *= 2;
      const cols = Math.max(1, Math.ceil(width / size + 1));
      const rows = Math.max(1, Math.ceil(height / size + 1));
      const keys = new Int32Array(list.length);
      for (let k = 0; k < list.length; k++) {
        const i = list[k];
        const cx = Math.min(cols - 1, Math.max(0, Math.floor((rect[4 * i] + rect[4 * i + 2]) / 2 / size)));
        const cy = Math.min(rows - 1, Math.max(0, Math.floor((rect[4 * i + 1] + rect[4 * i + 3]) / 2 / size)));
        keys[k] = cy * cols + cx;
      }
      this.levels.push({ size, cols, rows, items: Int32Array.from(list), cells: bucket(keys, cols * rows) });
    }
  }

  /** Calls `visit` for each rectangle that meets the window. */
  query(x0: number, y0: number, x1: number, y1: number, visit: (i: number) => void): void {
    const r = this.rect;
    for (const l of this.levels) {
      const half = l.size / 2; // nothing of this level reaches further than half a cell beyond its cell
      const a = Math.min(l.cols - 1, Math.max(0, Math.floor((x0 - half) / l.size)));
      const b = Math.min(l.cols - 1, Math.max(0, Math.floor((x1 + half) / l.size)));
      const c = Math.min(l.rows - 1, Math.max(0, Math.floor((y0 - half) / l.size)));
      const d = Math.min(l.rows - 1, Math.max(0, Math.floor((y1 + half) / l.size)));
      for (let cy = c; cy <= d; cy++) {
        const from = l.cells.offsets[cy * l.cols + a];
        const to = l.cells.offsets[cy * l.cols + b + 1];
        for (let k = from; k < to; k++) {
          const i = l.items[l.cells.values[k]];
          if (r[4 * i] <= x1 && r[4 * i + 2] >= x0 && r[4 * i + 1] <= y1 && r[4 * i + 3] >= y0) visit(i);
        }
      }
    }
  }
}

export interface ShapeIndex {
  readonly members: RectIndex;
  readonly edges: RectIndex;
}

const known = new WeakMap<Shape, ShapeIndex>();

/** The index of a shape, built when it is first looked at; null for small shapes. */
export function indexOf(shape: Shape): ShapeIndex | null {
  const n = shape.small.length;
  const m = shape.edgeSrc.length;
  if (n < SMALL && m < SMALL * 2) return null;
  let found = known.get(shape);
  if (!found) {
    const members = new Float32Array(4 * n);
    for (let i = 0; i < n; i++) {
      members[4 * i] = shape.rect[4 * i];
      members[4 * i + 1] = shape.rect[4 * i + 1];
      members[4 * i + 2] = shape.rect[4 * i] + shape.rect[4 * i + 2];
      members[4 * i + 3] = shape.rect[4 * i + 1] + shape.rect[4 * i + 3];
    }
    found = {
      members: new RectIndex(members, shape.w, shape.h),
      edges: new RectIndex(edgeBounds(shape), shape.w, shape.h),
    };
    known.set(shape, found);
  }
  return found;
}

const bounds = new WeakMap<Shape, Float32Array>();

/** x0 y0 x1 y1 of each edge, bends included. */
export function edgeBounds(shape: Shape): Float32Array {
  let out = bounds.get(shape);
  if (out) return out;
  const m = shape.edgeSrc.length;
  out = new Float32Array(4 * m);
  const p = shape.points;
  for (let e = 0; e < m; e++) {
    let x0 = Infinity;
    let y0 = Infinity;
    let x1 = -Infinity;
    let y1 = -Infinity;
    for (let i = shape.pathStart[e]; i < shape.pathStart[e + 1]; i++) {
      const bend = Math.abs(p[3 * i + 2] || 0);
      x0 = Math.min(x0, p[3 * i] - bend);
      x1 = Math.max(x1, p[3 * i] + bend);
      y0 = Math.min(y0, p[3 * i + 1] - bend);
      y1 = Math.max(y1, p[3 * i + 1] + bend);
    }
    out.set([x0, y0, x1, y1], 4 * e);
  }
  bounds.set(shape, out);
  return out;
}
