/** How texts get onto the GPU: whole words drawn by the browser, kept in one texture by size. */

import { css, type Rgba } from "../base/color";
import type { Face } from "../layout/measure";
import { font } from "./fonts";

/**
 * Whole texts rather than glyphs: the browser shapes them, so hinting, right-to-left scripts and emoji
 * come out as everywhere else on the page, at exact pixel sizes.
 */
export interface Slot {
  readonly u: number; // texels
  readonly v: number;
  readonly w: number;
  readonly h: number;
  /** Drawn in its final colours: emoji keep their own. */
  readonly colored: boolean;
}

const SIZE = 2048;
const PAD = 1;
const EMOJI = /\p{Extended_Pictographic}/u;

export class TextAtlas {
  readonly size = SIZE;
  readonly canvas: HTMLCanvasElement;
  private readonly ctx: CanvasRenderingContext2D;
  private readonly slots = new Map<string, Slot>();
  private x = 0;
  private y = 0;
  private row = 0;
  dirtyFrom = SIZE;
  dirtyTo = 0;
  /** Raised when the texture was emptied: slots handed out before are void. */
  generation = 0;

  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.width = this.canvas.height = SIZE;
    const ctx = this.canvas.getContext("2d", { willReadFrequently: true });
    if (!ctx) throw new Error("no 2d canvas");
    this.ctx = ctx;
    ctx.textBaseline = "alphabetic";
  }

  clear(): void {
    this.slots.clear();
    this.ctx.clearRect(0, 0, SIZE, SIZE);
    this.x = this.y = this.row = 0;
    this.dirtyFrom = 0;
    this.dirtyTo = SIZE;
    this.generation++;
  }

  /** Pixel size is a whole number of device pixels. */
  slot(text: string, px: number, face: Face, color: Rgba): Slot | null {
    const colored = EMOJI.test(text);
    const key = `${face}${px}|${colored ? color : ""}|${text}`;
    const known = this.slots.get(key);
    if (known) return known;
    const ctx = this.ctx;
    ctx.font = font(face, px);
    const m = ctx.measureText(text);
    const w = Math.min(SIZE - 2, Math.ceil(m.width) + 2 * PAD);
    const h = Math.ceil(px * 1.4) + 2 * PAD;
    if (this.x + w > SIZE) {
      this.x = 0;
      this.y += this.row;
      this.row = 0;
    }
    if (this.y + h > SIZE) {
      if (h > SIZE) return null;
      this.clear();
    }
    // Plain texts are masks, tinted when drawn; one slot serves every colour.
    ctx.fillStyle = colored ? css(color) : "#fff";
    ctx.fillText(text, this.x + PAD, this.y + PAD + Math.round(px * 1.06));
    const slot: Slot = { u: this.x, v: this.y, w, h, colored };
    this.dirtyFrom = Math.min(this.dirtyFrom, this.y);
    this.dirtyTo = Math.max(this.dirtyTo, this.y + h);
    this.x += w;
    this.row = Math.max(this.row, h);
    this.slots.set(key, slot);
    return slot;
  }

  /** Rows that changed since the last call. */
  takeDirty(): readonly [number, number] | null {
    if (this.dirtyFrom >= this.dirtyTo) return null;
    const out = [this.dirtyFrom, Math.min(SIZE, this.dirtyTo)] as const;
    this.dirtyFrom = SIZE;
    this.dirtyTo = 0;
    return out;
  }

  pixels(from: number, to: number): ImageData {
    return this.ctx.getImageData(0, from, SIZE, to - from);
  }
}
