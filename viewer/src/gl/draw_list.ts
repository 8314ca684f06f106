/** Decides what a picture consists of: rounded boxes, curves and texts in screen space, back to front. */

import type { Rgba } from "../base/color";
import type { Face } from "../layout/measure";

/** 11 words for a box: x y w h, radius, stripe width, border width, pattern, fill, border, stripe colour. */
export const BOX_WORDS = 11;
/** 11 words for a curve: four points, width at start and end, colour. */
export const CURVE_WORDS = 11;

export const PLAIN = 0;
export const HATCHED = 1;

class Words {
  bytes: ArrayBuffer;
  f: Float32Array;
  u: Uint32Array;
  length = 0;

  constructor(readonly stride: number) {
    this.bytes = new ArrayBuffer(1024 * stride * 4);
    this.f = new Float32Array(this.bytes);
    this.u = new Uint32Array(this.bytes);
  }

  next(): number {
    const at = this.length * this.stride;
    if (at + this.stride > this.f.length) {
      const bytes = new ArrayBuffer(this.bytes.byteLength * 2);
      new Uint32Array(bytes).set(this.u);
      this.bytes = bytes;
      this.f = new Float32Array(bytes);
      this.u = new Uint32Array(bytes);
    }
    this.length++;
    return at;
  }
}

export interface TextItem {
  readonly text: string;
  /** Left edge (or middle, or right edge) and vertical middle of the text. */
  readonly x: number;
  readonly y: number;
  readonly px: number;
  readonly face: Face;
  readonly color: Rgba;
  readonly align: 0 | 0.5 | 1;
  /** Cut with an ellipsis when wider. */
  readonly maxWidth: number;
}

export type Run = readonly [what: "boxes" | "curves", start: number, end: number];

export class DrawList {
  readonly boxes = new Words(BOX_WORDS);
  readonly curves = new Words(CURVE_WORDS);
  readonly texts: TextItem[] = [];
  /** Runs in drawing order; texts come last. */
  readonly runs: Run[] = [];
  private openBoxes = 0;
  private openCurves = 0;

  clear(): void {
    this.boxes.length = 0;
    this.curves.length = 0;
    this.texts.length = 0;
    this.runs.length = 0;
    this.openBoxes = 0;
    this.openCurves = 0;
  }

  box(
    x: number, y: number, w: number, h: number, radius: number, fill: Rgba, border: Rgba, borderWidth: number, stripe = 0,
    stripeColor: Rgba = 0, pattern = PLAIN,
  ): void {
    const b = this.boxes;
    const i = b.next();
    b.f[i] = x;
    b.f[i + 1] = y;
    b.f[i + 2] = w;
    b.f[i + 3] = h;
    b.f[i + 4] = radius;
    b.f[i + 5] = stripe;
    b.f[i + 6] = borderWidth;
    b.f[i + 7] = pattern;
    b.u[i + 8] = fill;
    b.u[i + 9] = border;
    b.u[i + 10] = stripeColor;
  }

  curve(
    x0: number, y0: number, cx0: number, cy0: number, cx1: number, cy1: number, x1: number, y1: number, width0: number,
    width1: number, color: Rgba,
  ): void {
    const c = this.curves;
    const i = c.next();
    const f = c.f;
    f[i] = x0;
    f[i + 1] = y0;
    f[i + 2] = cx0;
    f[i + 3] = cy0;
    f[i + 4] = cx1;
    f[i + 5] = cy1;
    f[i + 6] = x1;
    f[i + 7] = y1;
    f[i + 8] = width0;
    f[i + 9] = width1;
    c.u[i + 10] = color;
  }

  text(t: TextItem): void {
    if (t.text) this.texts.push(t);
  }

  /** Ends a layer: what comes now is drawn over what was there. */
  layer(): void {
    if (this.curves.length > this.openCurves) this.runs.push(["curves", this.openCurves, this.curves.length]);
    if (this.boxes.length > this.openBoxes) this.runs.push(["boxes", this.openBoxes, this.boxes.length]);
    this.openCurves = this.curves.length;
    this.openBoxes = this.boxes.length;
  }
}
