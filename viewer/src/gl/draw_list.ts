/** What a picture consists of: rounded boxes, curves and texts in screen space, back to front. */

import type { Rgba } from "../base/color";
import type { Face } from "../layout/measure";

/** A box: x y w h, radius, stripe width, border width, pattern, fill, border, stripe colour. */
export const BOX_WORDS = 11;
/** Four points, width at start and end, colour. */
export const CURVE_WORDS = 11;
/** Two points, width at start and end, colour. */
export const LINE_WORDS = 7;
/** An opaque fill: x y w h, colour. */
export const FILL_WORDS = 5;

export const PLAIN = 0;
export const HATCHED = 1;

/** Marks of one kind, as numbers and as colours over the same bytes. */
export class Words {
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

/**
 * Kinds of marks. Most strokes are straight, and most of a box is plain colour: both have their own cheap
 * kind. In software a shaded pixel costs ten times a filled one, so only corners are shaded.
 */
export type Mark = "fills" | "corners" | "boxes" | "lines" | "curves";
/** A box with a smaller area is cheaper shaded as a whole than cut into pieces. */
const PIECES_FROM = 1200;

/** A part of a box that something opaque will cover. */
export interface Hole {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** Texts are drawn with their layer, so that headers laid over the drawing cover its texts too. */
export type Kind = Mark | "texts";

export type Run = readonly [what: Kind, start: number, end: number];

export class DrawList {
  readonly fills = new Words(FILL_WORDS);
  /** Like boxes, but only the four rounded corners are drawn; fills make up the rest. */
  readonly corners = new Words(BOX_WORDS);
  readonly boxes = new Words(BOX_WORDS);
  readonly lines = new Words(LINE_WORDS);
  readonly curves = new Words(CURVE_WORDS);
  readonly texts: TextItem[] = [];
  /** Runs in drawing order. */
  readonly runs: Run[] = [];
  /** `whole` keeps every box in one piece: for renderers that have rounded rectangles of their own. */
  constructor(private readonly whole = false) {}

  private readonly open: Record<Kind, number> = { texts: 0, fills: 0, corners: 0, boxes: 0, lines: 0, curves: 0 };

  clear(): void {
    for (const k of KINDS) this[k].length = this.open[k] = 0;
    this.runs.length = 0;
  }

  box(
    x: number,
    y: number,
    w: number,
    h: number,
    radius: number,
    fill: Rgba,
    border: Rgba,
    borderWidth: number,
    stripe = 0,
    stripeColor: Rgba = 0,
    pattern = PLAIN,
    holes: readonly Hole[] = [],
  ): void {
    let b = this.boxes;
    const corner = Math.max(radius, borderWidth) + 1;
    const opaque =
      fill >>> 24 === 255 &&
      (borderWidth === 0 || border >>> 24 === 255) &&
      (stripe === 0 || stripeColor >>> 24 === 255);
    if (!this.whole && opaque && pattern === PLAIN && w * h > PIECES_FROM && Math.min(w, h) > 2 * corner + 2) {
      this.body(x, y, w, h, corner, borderWidth, fill, border, holes);
      if (stripe > 0) this.rect(x + borderWidth, y + corner, stripe - borderWidth, h - 2 * corner, stripeColor);
      b = this.corners;
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

  /** All of a box but its corners, in fills. */
  private body(
    x: number,
    y: number,
    w: number,
    h: number,
    c: number,
    border: number,
    fill: Rgba,
    line: Rgba,
    holes: readonly Hole[],
  ): void {
    // Nothing is painted twice but under the border: seven pieces cost less than a thousand pixels.
    this.around(x + c, y, w - 2 * c, h, fill, holes);
    this.rect(x, y + c, c, h - 2 * c, fill);
    this.rect(x + w - c, y + c, c, h - 2 * c, fill);
    if (border === 0) return;
    this.rect(x + c, y, w - 2 * c, border, line);
    this.rect(x + c, y + h - border, w - 2 * c, border, line);
    this.rect(x, y + c, border, h - 2 * c, line);
    this.rect(x + w - border, y + c, border, h - 2 * c, line);
  }

  /**
   * A rectangle without the parts that will be painted over anyway: nested sheets would fill every
   * pixel five times. Cut into bands between the holes' upper and lower sides.
   */
  private around(x: number, y: number, w: number, h: number, color: Rgba, holes: readonly Hole[]): void {
    if (holes.length === 0) {
      this.rect(x, y, w, h, color);
      return;
    }
    const cuts = [y, y + h];
    for (const o of holes) cuts.push(Math.min(y + h, Math.max(y, o.y)), Math.min(y + h, Math.max(y, o.y + o.h)));
    cuts.sort((a, b) => a - b);
    for (let i = 1; i < cuts.length; i++) {
      const top = cuts[i - 1];
      const low = cuts[i];
      if (low - top < 0.5) continue;
      const middle = (top + low) / 2;
      let from = x;
      // Holes are given from left to right.
      for (const o of holes) {
        if (o.y > middle || o.y + o.h < middle) continue;
        if (o.x > from) this.rect(from, top, Math.min(o.x, x + w) - from, low - top, color);
        from = Math.max(from, o.x + o.w);
      }
      if (from < x + w) this.rect(from, top, x + w - from, low - top, color);
    }
  }

  /** A plain rectangle; opaque ones cost next to nothing. */
  rect(x: number, y: number, w: number, h: number, color: Rgba): void {
    if (color >>> 24 !== 255) {
      this.box(x, y, w, h, 0, color, 0, 0);
      return;
    }
    const m = this.fills;
    const k = m.next();
    m.f[k] = x;
    m.f[k + 1] = y;
    m.f[k + 2] = w;
    m.f[k + 3] = h;
    m.u[k + 4] = color;
  }

  curve(
    x0: number,
    y0: number,
    cx0: number,
    cy0: number,
    cx1: number,
    cy1: number,
    x1: number,
    y1: number,
    width0: number,
    width1: number,
    color: Rgba,
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

/** Order inside a layer. */
const KINDS: readonly Kind[] = ["fills", "corners", "boxes", "lines", "curves", "texts"];
