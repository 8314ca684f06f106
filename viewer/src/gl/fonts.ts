/** The fonts of the canvas: the system's own, the same as the page around it. */

import type { Face, FontTable } from "../layout/measure";

export const SANS = `system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif`;
export const MONO = `ui-monospace, "SF Mono", "Cascadia Mono", "Roboto Mono", Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace`;

export function font(face: Face, px: number): string {
  return `${face === "bold" ? 600 : 400} ${px}px ${face === "mono" ? MONO : SANS}`;
}

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Advances of the printable ASCII range, for the layout worker. */
export function measureFonts(ctx: Context): FontTable {
  const table = (face: Face): number[] => {
    ctx.font = font(face, 100);
    const out: number[] = [];
    for (let c = 32; c < 127; c++) out.push(ctx.measureText(String.fromCharCode(c)).width / 100);
    return out;
  };
  return { sans: table("sans"), bold: table("bold"), mono: table("mono")[0] };
}

/** Widths and cuts of texts, remembered: the same labels come up in every frame. */
export class TextFit {
  private readonly widths = new Map<string, number>();
  private readonly cuts = new Map<string, string>();

  constructor(private readonly ctx: Context) {}

  width(text: string, px: number, face: Face): number {
    // Measured once at 100 px; hinting aside, advances scale.
    const key = face + text;
    let w = this.widths.get(key);
    if (w === undefined) {
      this.ctx.font = font(face, 100);
      w = this.ctx.measureText(text).width / 100;
      if (this.widths.size > 20000) this.widths.clear();
      this.widths.set(key, w);
    }
    return w * px;
  }

  /** The text, or what fits of it: the end of a path, the beginning and end of anything else. */
  cut(text: string, px: number, face: Face, maxWidth: number): string {
    if (this.width(text, px, face) <= maxWidth + 0.5) return text;
    const key = `${face}${Math.round(maxWidth / px / 0.25)}|${text}`;
    let out = this.cuts.get(key);
    if (out === undefined) {
      const short = face === "bold" && DOTTED.test(text) ? shortenPath : shorten;
      let a = 0;
      let b = Math.min(text.length, Math.ceil(maxWidth / (px * 0.2)));
      while (a < b) {
        const mid = (a + b + 1) >> 1;
        if (this.width(short(text, mid), px, face) <= maxWidth) a = mid;
        else b = mid - 1;
      }
      out = a < 2 ? "" : short(text, a);
      if (this.cuts.size > 20000) this.cuts.clear();
      this.cuts.set(key, out);
    }
    return out;
  }
}

/** A name of several parts; a number with a decimal point is none. */
const DOTTED = /\w\.(?=[A-Za-z_])/;

/** The end of a path says what it is: "…multiply" of "stablehlo.multiply", whole parts where that loses little. */
function shortenPath(text: string, keep: number): string {
  if (keep >= text.length) return text;
  const end = text.slice(text.length - keep + 1).replace(/^\./, "");
  const part = end.search(DOTTED) + 1;
  return `…${part > 0 && end.length - part > keep / 2 ? end.slice(part + 1) : end}`;
}

/** Beginning and end: numbered names differ at their ends. */
function shorten(text: string, keep: number): string {
  if (keep >= text.length) return text;
  const tail = keep > 8 ? Math.floor(keep * 0.35) : 0;
  return `${text.slice(0, keep - tail)}…${tail ? text.slice(-tail) : ""}`;
}
