/** How marks become triangles: corners computed here, in device pixels, four vertices to a quad. */

import { BOX_WORDS, CURVE_WORDS, FILL_WORDS, LINE_WORDS, type Words } from "./draw_list";

// Plain indexed quads rather than instances or fetched data: a software renderer runs every instance as
// a draw of its own (30 µs each) and fetches texels in vertex shaders slowly, while a few thousand
// vertices written here cost well under a millisecond.
export const FILL_VERTEX = 3;
export const BOX_VERTEX = 13;
export const STROKE_VERTEX = 5;
export const TEXT_VERTEX = 6;

const snap = (v: number): number => Math.floor(v + 0.5);

/** Fills lie on whole pixels: those that meet leave no seam, and thin borders stay crisp. */
export function fillVertices(out: Words, marks: Words, ratio: number): void {
  out.length = 0;
  const { f, u } = marks;
  for (let i = 0; i < marks.length; i++) {
    const a = i * FILL_WORDS;
    const x0 = snap(f[a] * ratio);
    const y0 = snap(f[a + 1] * ratio);
    const x1 = snap((f[a] + f[a + 2]) * ratio);
    const y1 = snap((f[a + 1] + f[a + 3]) * ratio);
    for (let k = 0; k < 4; k++) {
      const at = out.next();
      out.f[at] = k & 1 ? x1 : x0;
      out.f[at + 1] = k & 2 ? y1 : y0;
      out.u[at + 2] = u[a + 4];
    }
  }
}

/** Whole boxes: one quad each, a pixel wider than the box for the smooth edge. */
export function boxVertices(out: Words, marks: Words, ratio: number): void {
  out.length = 0;
  for (let i = 0; i < marks.length; i++) {
    const b = boxOf(marks, i, ratio);
    const rx = b.hx + 1;
    const ry = b.hy + 1;
    for (let k = 0; k < 4; k++) boxVertex(out, marks, i, ratio, b, k & 1 ? rx : -rx, k & 2 ? ry : -ry);
  }
}

/** Only the four corners of each box: four quads whose inner sides meet the fills of its body. */
export function cornerVertices(out: Words, marks: Words, ratio: number): void {
  out.length = 0;
  const { f } = marks;
  for (let i = 0; i < marks.length; i++) {
    const a = i * BOX_WORDS;
    const b = boxOf(marks, i, ratio);
    const side = Math.max(f[a + 4], f[a + 6]) + 1;
    const left = snap((f[a] + side) * ratio) - b.mx;
    const right = snap((f[a] + f[a + 2] - side) * ratio) - b.mx;
    const top = snap((f[a + 1] + side) * ratio) - b.my;
    const low = snap((f[a + 1] + f[a + 3] - side) * ratio) - b.my;
    for (let c = 0; c < 4; c++) {
      const x0 = c & 1 ? right : -b.hx - 1;
      const x1 = c & 1 ? b.hx + 1 : left;
      const y0 = c & 2 ? low : -b.hy - 1;
      const y1 = c & 2 ? b.hy + 1 : top;
      for (let k = 0; k < 4; k++) boxVertex(out, marks, i, ratio, b, k & 1 ? x1 : x0, k & 2 ? y1 : y0);
    }
  }
}

interface BoxGeometry {
  mx: number;
  my: number;
  hx: number;
  hy: number;
}

const geometry: BoxGeometry = { mx: 0, my: 0, hx: 0, hy: 0 };

function boxOf(marks: Words, i: number, ratio: number): BoxGeometry {
  const { f } = marks;
  const a = i * BOX_WORDS;
  let x0 = f[a] * ratio;
  let y0 = f[a + 1] * ratio;
  let x1 = (f[a] + f[a + 2]) * ratio;
  let y1 = (f[a + 1] + f[a + 3]) * ratio;
  // Borders on whole pixels; boxes of a few pixels stay where they are, or zooming would make them jump.
  if (y1 - y0 > 8 && (f[a + 6] > 0 || f[a + 4] > 0)) {
    x0 = snap(x0);
    y0 = snap(y0);
    x1 = snap(x1);
    y1 = snap(y1);
  }
  geometry.mx = (x0 + x1) / 2;
  geometry.my = (y0 + y1) / 2;
  geometry.hx = (x1 - x0) / 2;
  geometry.hy = (y1 - y0) / 2;
  return geometry;
}

function boxVertex(out: Words, marks: Words, i: number, ratio: number, b: BoxGeometry, dx: number, dy: number): void {
  const a = i * BOX_WORDS;
  const at = out.next();
  const { f, u } = out;
  f[at] = b.mx;
  f[at + 1] = b.my;
  f[at + 2] = dx;
  f[at + 3] = dy;
  f[at + 4] = b.hx;
  f[at + 5] = b.hy;
  f[at + 6] = marks.f[a + 4] * ratio;
  f[at + 7] = marks.f[a + 5] * ratio;
  f[at + 8] = marks.f[a + 6] * ratio;
  f[at + 9] = marks.f[a + 7];
  u[at + 10] = marks.u[a + 8];
  u[at + 11] = marks.u[a + 9];
  u[at + 12] = marks.u[a + 10];
}

function pair(out: Words, x: number, y: number, nx: number, ny: number, half: number, color: number): void {
  const reach = half + 1;
  for (let k = -1; k <= 1; k += 2) {
    const at = out.next();
    out.f[at] = x + nx * reach * k;
    out.f[at + 1] = y + ny * reach * k;
    out.f[at + 2] = reach * k;
    out.f[at + 3] = half;
    out.u[at + 4] = color;
  }
}

export function lineVertices(out: Words, marks: Words, ratio: number): void {
  out.length = 0;
  const { f, u } = marks;
  for (let i = 0; i < marks.length; i++) {
    const a = i * LINE_WORDS;
    const x0 = f[a] * ratio;
    const y0 = f[a + 1] * ratio;
    const x1 = f[a + 2] * ratio;
    const y1 = f[a + 3] * ratio;
    const d = Math.hypot(x1 - x0, y1 - y0) || 1;
    const nx = -(y1 - y0) / d;
    const ny = (x1 - x0) / d;
    pair(out, x0, y0, nx, ny, (f[a + 4] * ratio) / 2, u[a + 6]);
    pair(out, x1, y1, nx, ny, (f[a + 5] * ratio) / 2, u[a + 6]);
  }
}

/** Vertices in pairs along each curve; `ends[i]` is the number of pairs up to and with curve i. */
export function curveVertices(out: Words, marks: Words, ratio: number, ends: Int32Array): void {
  out.length = 0;
  const { f, u } = marks;
  let pairs = 0;
  for (let i = 0; i < marks.length; i++) {
    const a = i * CURVE_WORDS;
    const x0 = f[a] * ratio;
    const y0 = f[a + 1] * ratio;
    const cx0 = f[a + 2] * ratio;
    const cy0 = f[a + 3] * ratio;
    const cx1 = f[a + 4] * ratio;
    const cy1 = f[a + 5] * ratio;
    const x1 = f[a + 6] * ratio;
    const y1 = f[a + 7] * ratio;
    const length = Math.abs(x1 - x0) + Math.abs(y1 - y0);
    const steps = Math.max(4, Math.min(20, Math.ceil(Math.sqrt(length) * 0.9)));
    for (let k = 0; k <= steps; k++) {
      // Samples gather at the ends, where a wide S-curve turns.
      const t = 0.5 - 0.5 * Math.cos((Math.PI * k) / steps);
      const v = 1 - t;
      const b0 = v * v * v;
      const b1 = 3 * v * v * t;
      const b2 = 3 * v * t * t;
      const b3 = t * t * t;
      let dx = (cx0 - x0) * v * v + (cx1 - cx0) * 2 * v * t + (x1 - cx1) * t * t;
      let dy = (cy0 - y0) * v * v + (cy1 - cy0) * 2 * v * t + (y1 - cy1) * t * t;
      let d = Math.hypot(dx, dy);
      if (d < 1e-3) {
        dx = x1 - x0;
        dy = y1 - y0;
        d = Math.hypot(dx, dy) || 1;
      }
      const half = ((f[a + 8] + (f[a + 9] - f[a + 8]) * t) * ratio) / 2;
      pair(
        out,
        x0 * b0 + cx0 * b1 + cx1 * b2 + x1 * b3,
        y0 * b0 + cy0 * b1 + cy1 * b2 + y1 * b3,
        -dy / d,
        dx / d,
        half,
        u[a + 10],
      );
    }
    pairs += steps + 1;
    ends[i] = pairs;
  }
}
