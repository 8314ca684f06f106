/** Where the names of open groups stand: in their header, at the window's edge, or over a far sheet. */

import { fade } from "../base/color";
import { HEADER, SUB_PX, TITLE_PX } from "../layout/style";
import { MIN_PX, type Frame, type Visit } from "./frame_context";

/** Past this many names no further one over a far sheet would be read. */
const MOST_NAMES = 400;

interface Words {
  readonly title: string;
  /** What was asked for, by an overlay; "" without. */
  readonly figure: string;
  /** Figure and class, or the class alone. */
  readonly whole: string;
  readonly lit: boolean;
  readonly px: number;
}

/** The headers of one frame, from the outside in: an outer name goes before an inner one. */
export class Headers {
  private readonly placed: (readonly [number, number, number, number])[] = [];

  constructor(private readonly frame: Frame) {}

  draw(v: Visit): void {
    const { scale: s, scene, state } = this.frame;
    if (v.alpha < 0.5) return;
    const place = scene.place(v.item);
    if (!place) return;
    const figure = state.overlay?.figure?.(v.item) ?? "";
    const plain = scene.sub(place.view, place.index);
    const words: Words = {
      title: scene.title(place.view, place.index),
      figure,
      whole: figure ? `${figure} · ${plain}` : plain,
      lit: state.overlay?.lit?.[v.item] !== 0,
      px: Math.max(MIN_PX, TITLE_PX * this.frame.textScale),
    };
    if (HEADER * s < MIN_PX + 1) this.nameOver(v, words);
    else this.bar(v, words);
  }

  /** Content is too small to read: the sheet's name stands over it, where no outer name stands already. */
  private nameOver(v: Visit, { title, lit, px }: Words): void {
    const { theme, list } = this.frame;
    const face = v.depth < 2 || this.placed.length === 0 ? "bold" : "sans";
    if (v.w < 70 || v.h < 34) return;
    const w = Math.min(v.w - 6, this.frame.textWidth(title, px, face) + 12);
    const x = Math.max(v.x, 0) + 3;
    const y = Math.max(v.y, 0) + 3;
    const h = px * 1.5;
    if (x + w > v.x + v.w || y + h > v.y + v.h || this.taken(x, y, w, h)) return;
    list.box(x, y, w, h, 4, fade(this.sheetColor(v), 0.88), 0, 0);
    list.text({
      text: title,
      x: x + 6,
      y: y + h / 2,
      px,
      face,
      color: fade(face === "bold" ? theme.ink : theme.soft, lit ? 1 : 0.4),
      align: 0,
      maxWidth: w - 8,
    });
  }

  /** The header of a sheet stays at the window's edge while any part of the sheet is in view. */
  private bar(v: Visit, { title, figure, whole, lit, px }: Words): void {
    const { scale: s, theme, list, width, textWidth } = this.frame;
    const hh = HEADER * s;
    const bar = Math.min(hh, 26);
    const top = (v.depth - 1) * bar;
    const y = Math.max(v.y, top);
    // Scrolled out but for a strip: the strip would lie over the headers of the groups around.
    if (y + bar > v.y + v.h + 1) return;
    const x = Math.max(v.x, 0);
    const right = Math.min(v.x + v.w, width);
    if (right - x < 40) return;
    const paper = this.sheetColor(v);
    if (y > v.y + 1) {
      list.rect(x + 1, y, right - x - 2, bar, paper);
      list.rect(x + 1, y + bar, right - x - 2, 1, theme.sheetBorders[this.tone(v)]);
    }
    const pad = Math.max(8, 12 * Math.min(1, s));
    const room = right - x - 2 * pad;
    const tw = Math.min(room, textWidth(title, px, "bold"));
    const cy = y + bar / 2 + (hh > 26 && y <= v.y + 1 ? (hh - bar) / 2 : 0);
    // Edges that come in through the header run behind its words.
    list.rect(x + pad - 3, cy - px * 0.7, tw + 6, px * 1.4, paper);
    list.text({
      text: title,
      x: x + pad,
      y: cy,
      px,
      face: "bold",
      color: lit ? theme.ink : fade(theme.ink, 0.4),
      align: 0,
      maxWidth: room,
    });
    if (room - tw > 60) {
      const spx = Math.max(MIN_PX, SUB_PX * this.frame.textScale);
      // Where both have no room, the figure that was asked for goes before what is always there.
      const sub = figure && textWidth(whole, spx, "sans") > room - tw - 24 ? figure : whole;
      const sw = Math.min(room - tw - 24, textWidth(sub, spx, "sans"));
      list.rect(right - pad - sw - 3, cy - spx * 0.7, sw + 6, spx * 1.4, paper);
      list.text({
        text: sub,
        x: right - pad,
        y: cy,
        px: spx,
        face: "sans",
        color: fade(theme.soft, lit ? 1 : 0.5),
        align: 1,
        maxWidth: room - tw - 24,
      });
    }
  }

  /** Which of the theme's tones a sheet has. */
  private tone(v: Visit): number {
    return Math.min(v.depth - 1, this.frame.theme.sheets.length - 1);
  }

  private sheetColor(v: Visit): number {
    return this.frame.sheetColor(v.item, this.tone(v));
  }

  /** Whether a name would cover one that stands already; notes it otherwise. */
  private taken(x: number, y: number, w: number, h: number): boolean {
    for (const p of this.placed) if (x < p[0] + p[2] && p[0] < x + w && y < p[1] + p[3] && p[1] < y + h) return true;
    if (this.placed.length > MOST_NAMES) return true;
    this.placed.push([x, y, w, h]);
    return false;
  }
}
