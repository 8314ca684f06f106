/** How a draw list is drawn where there is no WebGL2: the same picture with a plain 2d canvas. */

import { alphaOf, css, type Rgba } from "../base/color";
import { BOX_WORDS, CURVE_WORDS, FILL_WORDS, HATCHED, LINE_WORDS, type DrawList, type TextItem } from "./draw_list";
import { font, TextFit } from "./fonts";
import type { Renderer } from "./renderer";

type Context = CanvasRenderingContext2D;

export class CanvasRenderer implements Renderer {
  readonly kind = "canvas2d";
  private readonly ctx: Context;
  private readonly fit: TextFit;
  private ratio = 1;

  /**
   * `small` is a picture drawn once that lies on another canvas. It is kept away from the GPU, whose shaders
   * cost more than the picture. It is not declared opaque, though it is: without a GPU Chromium leaves out what
   * an opaque canvas covers of a WebGL canvas below it, but at the place mirrored top to bottom: a white hole.
   */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    small = false,
  ) {
    const ctx = canvas.getContext("2d", { alpha: small, willReadFrequently: small });
    if (!ctx) throw new Error("This browser can draw neither with WebGL2 nor with a 2d canvas.");
    this.ctx = ctx;
    this.fit = new TextFit(ctx);
  }

  resize(width: number, height: number, ratio: number): void {
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.ratio = ratio;
  }

  draw(list: DrawList, background: Rgba): void {
    const { ctx } = this;
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    ctx.fillStyle = css(background);
    ctx.fillRect(0, 0, this.canvas.width / this.ratio, this.canvas.height / this.ratio);
    for (const [what, start, end] of list.runs) {
      for (let i = start; i < end; i++) {
        if (what === "texts") this.text(list.texts[i]);
        else if (what === "boxes" || what === "corners") this.box(list[what], i);
        else if (what === "fills") this.fill(list.fills, i);
        else if (what === "lines") this.line(list, i);
        else this.curve(list, i);
      }
    }
  }

  private text(t: TextItem): void {
    const { ctx } = this;
    const text = this.fit.cut(t.text, t.px, t.face, t.maxWidth);
    if (!text) return;
    ctx.textBaseline = "middle";
    ctx.font = font(t.face, t.px);
    ctx.fillStyle = css(t.color);
    ctx.textAlign = t.align === 0 ? "left" : t.align === 1 ? "right" : "center";
    ctx.fillText(text, t.x, t.y);
  }

  private fill(marks: DrawList["fills"], i: number): void {
    const { f, u } = marks;
    const a = i * FILL_WORDS;
    this.ctx.fillStyle = css(u[a + 4]);
    this.ctx.fillRect(f[a], f[a + 1], f[a + 2], f[a + 3]);
  }

  private line(list: DrawList, i: number): void {
    const { f, u } = list.lines;
    const a = i * LINE_WORDS;
    const { ctx } = this;
    ctx.beginPath();
    if (f[a + 5] < f[a + 4]) {
      // A tapered stroke is an arrow head.
      const dx = f[a + 2] - f[a];
      const dy = f[a + 3] - f[a + 1];
      const d = Math.hypot(dx, dy) || 1;
      const nx = ((-dy / d) * f[a + 4]) / 2;
      const ny = ((dx / d) * f[a + 4]) / 2;
      ctx.moveTo(f[a] + nx, f[a + 1] + ny);
      ctx.lineTo(f[a] - nx, f[a + 1] - ny);
      ctx.lineTo(f[a + 2], f[a + 3]);
      ctx.fillStyle = css(u[a + 6]);
      ctx.fill();
      return;
    }
    ctx.moveTo(f[a], f[a + 1]);
    ctx.lineTo(f[a + 2], f[a + 3]);
    ctx.strokeStyle = css(u[a + 6]);
    ctx.lineWidth = f[a + 4];
    ctx.stroke();
  }

  private box(marks: DrawList["boxes"], i: number): void {
    const { f, u } = marks;
    const a = i * BOX_WORDS;
    const { ctx } = this;
    const [x, y, w, h, radius, stripe, border, pattern] = f.subarray(a, a + 8);
    if (radius < 0.5 && border === 0) {
      ctx.fillStyle = css(u[a + 8]);
      ctx.fillRect(x, y, w, h);
      return;
    }
    const inset = border / 2;
    ctx.beginPath();
    ctx.roundRect(
      x + inset,
      y + inset,
      Math.max(0, w - border),
      Math.max(0, h - border),
      Math.max(0, Math.min(radius, w / 2, h / 2)),
    );
    ctx.fillStyle = css(u[a + 8]);
    ctx.fill();
    if (stripe > 0 || pattern === HATCHED) {
      ctx.save();
      ctx.clip();
      ctx.fillStyle = css(u[a + 10]);
      if (stripe > 0) ctx.fillRect(x, y, stripe, h);
      if (pattern === HATCHED) {
        ctx.globalAlpha = 0.28;
        for (let k = -h; k < w; k += 8) ctx.fillRect(x + k, y, 1.5, h);
      }
      ctx.restore();
    }
    if (border > 0 && alphaOf(u[a + 9]) > 0) {
      ctx.strokeStyle = css(u[a + 9]);
      ctx.lineWidth = border;
      ctx.stroke();
    }
  }

  private curve(list: DrawList, i: number): void {
    const { f, u } = list.curves;
    const a = i * CURVE_WORDS;
    const { ctx } = this;
    ctx.beginPath();
    ctx.moveTo(f[a], f[a + 1]);
    ctx.bezierCurveTo(f[a + 2], f[a + 3], f[a + 4], f[a + 5], f[a + 6], f[a + 7]);
    ctx.strokeStyle = css(u[a + 10]);
    ctx.lineWidth = f[a + 8];
    ctx.stroke();
  }

  sound(): boolean {
    return true;
  }

  dispose(): void {
    this.ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
  }
}
