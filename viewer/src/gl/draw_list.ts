/** Decides what a picture consists of: rounded boxes, curves and texts in screen space, back to front. */

import type { Rgba } from "../base/color";
import type { Face } from "../layout/measure";

/** Words of each mark, a multiple of four: they travel as texels. A box: x y w h, radius, stripe width, border width, pattern, fill, border, stripe colour. */
export const BOX_WORDS = 12;
/** Four points, width at start and end, colour. */
export const CURVE_WORDS = 12;
/** Two points, width at start and end, colour. */
export const LINE_WORDS = 8;
/** An opaque fill: x y w h, colour. */
export const FILL_WORDS = 8;
/** Texels in a row of a data texture; buffers hold whole rows. */
export const ROW_WORDS = 4096;

export const PLAIN = 0;
export const HATCHED = 1;

/** Marks of one kind, as numbers and as colours over the same bytes. */
export class Words {
  bytes: ArrayBuffer;
  f: Float32Array;
  u: Uint32Array;
  length = 0;

  constructor(readonly stride: number) {
    this.bytes = new ArrayBuffer(2 * ROW_WORDS * 4);
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

/**
 * Kinds of marks. Most strokes are straight, and most of a large sheet is plain colour: both have their
 * own cheap kind, so that a software renderer spends its time on what needs it.
 */
export type Kind = "fills" | "rings" | "boxes" | "lines" | "curves";
export type Run = readonly [what: Kind, start: number, end: number];

/** Boxes at least this large are drawn as a flat inside and a ring. */
const LARGE = 40;

export class DrawList {
  readonly fills = new Words(FILL_WORDS);
  /** Like boxes, but only a ring of `INSET` pixels along the border is drawn. */
  readonly rings = new Words(BOX_WORDS);
  readonly boxes = new Words(BOX_WORDS);
  readonly lines = new Words(LINE_WORDS);
  readonly curves = new Words(CURVE_WORDS);
  readonly texts: TextItem[] = [];
  /** Runs in drawing order; texts come last. */
  readonly runs: Run[] = [];
  private readonly open: Record<Kind, number> = { fills: 0, rings: 0, boxes: 0, lines: 0, curves: 0 };

  clear(): void {
    for (const k of KINDS) this[k].length = this.open[k] = 0;
    this.texts.length = 0;
    this.runs.length = 0;
  }

  box(
    x: number, y: number, w: number, h: number, radius: number, fill: Rgba, border: Rgba, borderWidth: number, stripe = 0,
    stripeColor: Rgba = 0, pattern = PLAIN,
  ): void {
    let b = this.boxes;
    if (w >= LARGE && h >= LARGE && fill >>> 24 === 255 && pattern === PLAIN && stripe === 0) {
      const inset = Math.ceil(radius + borderWidth) + 1;
      if (w > 3 * inset && h > 3 * inset) {
        const k = this.fills.next();
        this.fills.f[k] = x + inset - 1;
        this.fills.f[k + 1] = y + inset - 1;
        this.fills.f[k + 2] = w - 2 * inset + 2;
        this.fills.f[k + 3] = h - 2 * inset + 2;
        this.fills.u[k + 4] = fill;
        b = this.rings;
      }
    }
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

  line(x0: number, y0: number, x1: number, y1: number, width0: number, width1: number, color: Rgba): void {
    const l = this.lines;
    const i = l.next();
    l.f[i] = x0;
    l.f[i + 1] = y0;
    l.f[i + 2] = x1;
    l.f[i + 3] = y1;
    l.f[i + 4] = width0;
    l.f[i + 5] = width1;
    l.u[i + 6] = color;
  }

  text(t: TextItem): void {
    if (t.text) this.texts.push(t);
  }

  /** Ends a layer: what comes now is drawn over what was there. */
  layer(): void {
    for (const k of KINDS) {
      if (this[k].length > this.open[k]) this.runs.push([k, this.open[k], this[k].length]);
      this.open[k] = this[k].length;
    }
  }
}

/** Order inside a layer: strokes lie under boxes. */
const KINDS: readonly Kind[] = ["lines", "curves", "fills", "rings", "boxes"];
