/** Decides what is drawn in a frame: culling, levels of detail, headers that stay in view, highlights. */

import { blend, fade, type Rgba } from "../base/color";
import { FAMILIES } from "../layout/family";
import { CHANGE_BITS, CHANGE_SHIFT, HAS_INSIDE, IS_GROUP, IS_OPEN, IS_REPEAT, IS_SOURCE, type Shape } from "../layout/scene_update";
import { HEADER, LEAF_H, RADIUS, STEM, SUB_PX, TITLE_PX } from "../layout/style";
import { LINE } from "../layout/labels";
import type { Face } from "../layout/measure";
import { EDGE, TAG } from "../layout/template";
import type { Camera } from "./camera";
import { DENSE_FROM, denseGrid } from "./dense";
import { HATCHED, PLAIN, type DrawList, type Hole } from "./draw_list";
import type { GroupView, Scene } from "./scene";
import { edgeBounds, indexOf } from "./spatial";
import { Pen, STRAIGHT } from "./stroke";
import type { Theme } from "./theme";
import type { FrameState, Link, Note } from "./frame_state";

/** Nothing smaller than this is read: texts are written at 11 px or give way. */
const MIN_PX = 11;
/** A box lower than this on screen is a block of colour. */
const BLOCK_H = 14;
/** A group smaller than this on screen is a block. */
const BLOCK_GROUP = 26;
const NOTE_WIDTH = 320;

interface Visit {
  readonly view: GroupView;
  readonly item: number;
  readonly x: number; // screen
  readonly y: number;
  readonly w: number;
  readonly h: number;
  readonly depth: number;
  readonly alpha: number;
}

export class FrameBuilder {
  /** Boxes and curves looked at in the last frame; tests hold it to what is visible. */
  visited = 0;
  private theme!: Theme;
  private pen!: Pen;
  private list!: DrawList;
  private scene!: Scene;
  private state!: FrameState;
  private s = 1;
  private width = 0;
  private height = 0;
  private dim = false;

  /** `textWidth` gives the width of a text as the renderer will draw it. */
  constructor(readonly textWidth: (text: string, px: number, face: Face) => number = (text, px) => text.length * px * 0.6) {}
  private placed: (readonly [number, number, number, number])[] = [];

  build(list: DrawList, scene: Scene, camera: Camera, width: number, height: number, theme: Theme, state: FrameState): void {
    list.clear();
    this.visited = 0;
    this.placed = [];
    const root = scene.root;
    if (!root) return;
    this.theme = theme;
    this.list = list;
    this.pen = new Pen(list, width, height, scene.across);
    this.scene = scene;
    this.state = state;
    this.s = camera.scale;
    this.width = width;
    this.height = height;
    this.dim = state.strokes !== null;
    const s = camera.scale;
    const size = state.tween ? state.tween.sizeOf(root) : root.shape;
    let level: Visit[] = [{ view: root, item: -1, x: camera.x, y: camera.y, w: size.w * s, h: size.h * s, depth: 0, alpha: 1 }];
    const headers: Visit[] = [];
    while (level.length > 0) {
      const next: Visit[] = [];
      for (const v of level) this.edges(v);
      for (const v of level) this.members(v, next, headers);
      level = next;
    }
    // One layer for the whole drawing: sheets come before what lies on them, and no edge crosses a box,
    // so all strokes can go on top. A handful of draws a frame, however deep the nesting.
    list.layer();
    for (const l of state.links) this.link(l, camera);
    for (const v of headers) this.header(v);
    for (const n of state.notes ?? []) this.note(n, camera);
    list.layer();
  }

  // ------------------------------------------------------------------------------------ edges
  private edges(v: Visit): void {
    const { s, state, theme } = this;
    const shape = v.view.shape;
    // Below this the strokes of a group would be a grey mist.
    if (s < 0.05) return;
    const strong = state.strokes?.get(v.view.group);
    const strength = Math.min(1, Math.max(0, (s - 0.05) / 0.15)) * v.alpha;
    const base = fade(theme.edge, strength * (this.dim ? 0.3 : 1));
    const width = s < 0.4 ? 0.9 : 1.25;
    const index = indexOf(shape);
    const x0 = -v.x / s;
    const y0 = -v.y / s;
    const x1 = (this.width - v.x) / s;
    const y1 = (this.height - v.y) / s;
    const one = (e: number): void => {
      if (strong?.has(e)) return;
      if (shape.edgeKind[e] === TAG && s < 0.3) return;
      this.stroke(v, e, base, width);
    };
    if (index) index.edges.query(x0, y0, x1, y1, one);
    else {
      const b = edgeBounds(shape);
      for (let e = 0; e < shape.edgeSrc.length; e++) {
        if (b[4 * e] <= x1 && b[4 * e + 2] >= x0 && b[4 * e + 1] <= y1 && b[4 * e + 3] >= y0) one(e);
      }
    }
    if (strong) for (const e of strong) this.stroke(v, e, fade(theme.accent, v.alpha), 2);
    if (s >= 0.8) this.edgeLabels(v, x0, y0, x1, y1);
  }

  private stroke(v: Visit, e: number, color: Rgba, width: number): void {
    this.visited++;
    const { s, list, scene, state } = this;
    const shape = v.view.shape;
    const p = shape.points;
    const from = shape.pathStart[e];
    const to = shape.pathStart[e + 1];
    const shift = state.tween ? state.tween.edgeShift(v.view, e) : null;
    let px = 0;
    let py = 0;
    // Straight steps in a row are drawn as one, from here.
    let ax = 0;
    let ay = 0;
    for (let i = from; i < to; i++) {
      const k = shift ? (i - from) / Math.max(1, to - from - 1) : 0;
      const x = v.x + (p[3 * i] + (shift ? shift[0] + (shift[2] - shift[0]) * k : 0)) * s;
      const y = v.y + (p[3 * i + 1] + (shift ? shift[1] + (shift[3] - shift[1]) * k : 0)) * s;
      const bend = p[3 * i + 2] * s;
      if (i === from) {
        ax = x;
        ay = y;
      } else if (bend !== 0 || Math.abs(scene.across ? y - ay : x - ax) >= STRAIGHT) {
        // A step too short to be seen is left out; the next one starts where the last drawn one ended.
        if (bend === 0 && i + 1 < to && Math.abs(x - px) + Math.abs(y - py) < 1.2) continue;
        if (px !== ax || py !== ay) this.pen.stretch(ax, ay, px, py, 0, width, color);
        this.pen.stretch(px, py, x, y, bend, width, color);
        ax = x;
        ay = y;
      }
      px = x;
      py = y;
    }
    if (px !== ax || py !== ay) this.pen.stretch(ax, ay, px, py, 0, width, color);
    const dst = shape.edgeDst[e];
    if (s > 0.45 && shape.edgeKind[e] === EDGE && dst >= 0 && to - from > 1 && !(v.view.batch.flags[v.view.first + dst] & IS_OPEN)) {
      const a = Math.min(6, 6.5 * s);
      if (scene.across) list.line(px - a, py, px, py, a * 0.95, 0, color);
      else list.line(px, py - a, px, py, a * 0.95, 0, color);
    }
  }

  private edgeLabels(v: Visit, x0: number, y0: number, x1: number, y1: number): void {
    const shape = v.view.shape;
    const { s, theme, list } = this;
    if (v.alpha < 1) return;
    const written = new Set<number>();
    for (let e = 0; e < shape.edgeLabel.length; e++) {
      if (shape.edgeLabel[e] === 0 || shape.edgeKind[e] !== EDGE) continue;
      const i = shape.pathStart[e];
      const p = shape.points;
      // Edges of one box leave close together: there is room for one shape.
      if (written.has(shape.edgeSrc[e])) continue;
      written.add(shape.edgeSrc[e]);
      // Beside the stem under the producer, where edges of one row have not crossed yet.
      const wx = p[3 * i] + (this.scene.across ? 6 : 5);
      const wy = p[3 * i + 1] + (this.scene.across ? -8 : STEM / 2 + 1);
      if (this.scene.across && p[3 * i + 3] - p[3 * i] < this.scene.labels[shape.edgeLabel[e]].length * 6.8 + 10) continue;
      if (wx < x0 - 150 || wx > x1 || wy < y0 || wy > y1) continue;
      const px = Math.max(MIN_PX, (SUB_PX - 0.5) * s);
      list.text({
        text: this.scene.labels[shape.edgeLabel[e]], x: v.x + wx * s, y: v.y + wy * s, px, face: "mono",
        color: fade(theme.soft, this.dim ? 0.5 : 1), align: 0, maxWidth: 180 * s,
      });
    }
  }

  // ---------------------------------------------------------------------------------- members
  private members(v: Visit, next: Visit[], headers: Visit[]): void {
    const { s } = this;
    const shape = v.view.shape;
    const x0 = -v.x / s;
    const y0 = -v.y / s;
    const x1 = (this.width - v.x) / s;
    const y1 = (this.height - v.y) / s;
    const index = indexOf(shape);
    const tween = this.state.tween;
    if (v.view.count >= DENSE_FROM && s * LEAF_H < 2.5) {
      this.dense(v, x0, y0, x1, y1);
      return;
    }
    const one = (i: number): void => this.member(v, i, next, headers);
    if (index && !tween) index.members.query(x0, y0, x1, y1, one);
    else {
      for (let i = 0; i < v.view.count; i++) {
        const r = tween ? tween.rectOf(v.view, i) : shape.rect.subarray(4 * i, 4 * i + 4);
        if (r[0] <= x1 && r[0] + r[2] >= x0 && r[1] <= y1 && r[1] + r[3] >= y0) one(i);
      }
    }
    if (s >= 0.3) this.tags(v, x0, y0, x1, y1);
  }

  /** Boxes too small to tell apart: tones instead, and the chosen one on top. */
  private dense(v: Visit, x0: number, y0: number, x1: number, y1: number): void {
    const { s, list, theme, state } = this;
    const grid = denseGrid(v.view, s, theme, state.overlay?.fill);
    const side = grid.side;
    const size = side * s;
    for (let c = 0; c < grid.x.length; c++) {
      const gx = grid.x[c] * side;
      const gy = grid.y[c] * side;
      if (gx > x1 || gx + side < x0 || gy > y1 || gy + side < y0) continue;
      this.visited++;
      list.rect(v.x + gx * s, v.y + gy * s, size, size, grid.color[c]);
    }
    for (const item of [state.hover, state.selected]) {
      const p = item >= 0 ? this.scene.place(item) : null;
      if (p && p.view === v.view) list.box(v.x + p.x * s - 3, v.y + p.y * s - 3, p.w * s + 6, p.h * s + 6, 4, theme.accent, theme.paper, 1);
    }
  }

  private member(v: Visit, i: number, next: Visit[], headers: Visit[]): void {
    this.visited++;
    const { s, theme, list, state, scene } = this;
    const { shape, batch, first } = v.view;
    const r = shape.rect;
    let rx = r[4 * i];
    let ry = r[4 * i + 1];
    let rw = r[4 * i + 2];
    let rh = r[4 * i + 3];
    if (rw === 0) return;
    let alpha = v.alpha;
    if (state.tween) {
      const t = state.tween.rectOf(v.view, i);
      rx = t[0];
      ry = t[1];
      rw = t[2];
      rh = t[3];
      alpha *= state.tween.alphaOf(v.view, i);
    }
    const x = v.x + rx * s;
    const y = v.y + ry * s;
    const w = rw * s;
    const h = rh * s;
    const item = batch.item[first + i];
    const flags = batch.flags[first + i];
    const selected = item === state.selected;
    const hover = item === state.hover;
    const overlay = state.overlay;
    // An open group does not recede: what is lit inside it must stay bright.
    const lit = !overlay?.lit || (flags & IS_OPEN) !== 0 || overlay.lit[item] !== 0;
    if (!lit) alpha *= 0.3;
    const borderWidth = selected ? 2 : hover ? 1.5 : 1;

    if (flags & IS_GROUP && flags & IS_OPEN) {
      const open = scene.open(v.view, i);
      const d = Math.min(v.depth, theme.sheets.length - 1);
      const ruled = overlay?.border?.[item] || overlay?.sheet?.[item];
      const border = selected ? theme.accent : hover ? theme.foldedBorder : ruled || theme.sheetBorders[d];
      const radius = Math.min(8, RADIUS * Math.max(1, s));
      if (open && Math.min(w, h) > BLOCK_GROUP && w * h > 2200) {
        list.box(x, y, w, h, radius, fade(this.sheet(item, d), alpha), fade(border, alpha), borderWidth, 0, 0, PLAIN, this.holes(open, x, y, w, h));
        const inner: Visit = { view: open, item, x, y, w, h, depth: v.depth + 1, alpha };
        next.push(inner);
        headers.push(inner);
      } else {
        const fill = overlay?.fill?.[item] || blend(theme.sheets[d], theme.familyEdge[batch.family[first + i]], 0.28);
        list.box(x, y, w, h, Math.min(radius, h / 6, w / 6), fade(fill, alpha), fade(border, alpha), s < 0.1 && !selected ? 0 : borderWidth);
        // What tells it from its siblings, when that is short: the number of a layer.
        const name = scene.title(v.view, i).replace(/^.*\./, "");
        if (w > 18 && h > 13 && name.length < 5) {
          list.text({ text: name, x: x + w / 2, y: y + h / 2, px: MIN_PX, face: "sans", color: fade(theme.soft, alpha), align: 0.5, maxWidth: w - 2 });
        }
      }
      return;
    }
    const family = batch.family[first + i];
    const group = (flags & IS_GROUP) !== 0;
    const source = (flags & IS_SOURCE) !== 0;
    let fill = group ? theme.folded : theme.familyFill[family];
    let border = group ? theme.foldedBorder : theme.border;
    if (overlay?.fill?.[item]) fill = overlay.fill[item];
    if (overlay?.border?.[item]) border = overlay.border[item];
    if (selected) border = theme.accent;
    else if (hover) border = theme.ink;
    const pill = shape.small[i] === 1;
    if (h < 4) {
      // Far away: one flat mark, coloured by family.
      list.rect(x, y, w, Math.max(0.8, h), fade(overlay?.fill?.[item] || blend(fill, theme.familyEdge[family], 0.55), alpha));
      return;
    }
    if (pill && h < BLOCK_H - 2) {
      list.box(x, y + h * 0.2, w, h * 0.6, h * 0.3, fade(theme.border, alpha * 0.8), 0, 0);
      return;
    }
    const radius = pill || source ? Math.min(h / 2, 9 * Math.max(1, s)) : Math.min(RADIUS * Math.max(0.6, s), h / 2.5);
    if (group && flags & IS_REPEAT && h > 10) {
      // A run of identical groups is a small pile: the edges of two more sheets show.
      const d = Math.round(3 * Math.min(1.4, Math.max(0.6, s)));
      for (let k = 1; k < 3; k++) {
        const tone = fade(blend(fill, theme.edge, 0.1 * k), alpha);
        const line = fade(border, alpha);
        list.rect(x + w + (k - 1) * d, y + k * d + 2, d, h - 2, tone);
        list.rect(x + k * d + 2, y + h + (k - 1) * d, w - 2, d, tone);
        list.rect(x + w + k * d - 1, y + k * d + 2, 1, h - 3, line);
        list.rect(x + k * d + 2, y + h + k * d - 1, w - 3, 1, line);
      }
    }
    const mark = overlay?.mark?.[item] || (flags >> CHANGE_SHIFT) & CHANGE_BITS;
    if (mark && !selected) border = mark === 1 ? theme.added : mark === 2 ? theme.removed : theme.changed;
    const stripe = source || pill ? 0 : Math.min(4, 4 * Math.max(0.5, s));
    const pattern = !group && FAMILIES[family] === "opaque" ? HATCHED : PLAIN;
    list.box(x, y, w, h, radius, fade(fill, alpha), fade(border, alpha), mark && !selected ? 1.75 : borderWidth, stripe, fade(theme.familyEdge[family], alpha), pattern);
    const share = overlay?.share?.[item] ?? 0;
    if (share > 0 && h > 16) list.box(x + 6, y + h - 4, Math.max(1, (w - 12) * share), 2, 1, fade(theme.ink, 0.55 * alpha), 0, 0);
    this.memberText(v, i, item, x, y, w, h, group, pill, alpha, mark);
    if (flags & HAS_INSIDE && h >= BLOCK_H && w > 40) this.unfoldSign(x, y, w, alpha);
  }

  /** A node that holds ops says so: a small plus in its corner, as large as a letter. */
  private unfoldSign(x: number, y: number, w: number, alpha: number): void {
    const { s, list, theme } = this;
    const arm = Math.max(3, 3.5 * Math.min(1.4, s));
    const cx = Math.round(x + w - Math.max(8, 10 * s));
    const cy = Math.round(y + Math.max(8, 11 * s));
    const color = fade(theme.soft, alpha);
    list.line(cx - arm, cy, cx + arm, cy, 1.25, 1.25, color);
    list.line(cx, cy - arm, cx, cy + arm, 1.25, 1.25, color);
  }

  /** Where large inner sheets will cover a sheet, less a margin for their borders and round corners. */
  private holes(view: GroupView, x: number, y: number, w: number, h: number): Hole[] {
    const out: Hole[] = [];
    if (w * h < 20000 || view.count > 64 || this.state.tween) return out;
    const { s } = this;
    const r = view.shape.rect;
    for (let i = 0; i < view.count; i++) {
      if (!(view.batch.flags[view.first + i] & IS_OPEN)) continue;
      const hole: Hole = { x: x + r[4 * i] * s + 10, y: y + r[4 * i + 1] * s + 10, w: r[4 * i + 2] * s - 20, h: r[4 * i + 3] * s - 20 };
      if (hole.w * hole.h < 4000 || Math.min(hole.w, hole.h) < 30 || hole.x > this.width || hole.y > this.height || hole.x + hole.w < 0 || hole.y + hole.h < 0) continue;
      const lit = this.state.overlay?.lit;
      if (lit && !lit[view.batch.item[view.first + i]]) continue;
      out.push(hole);
    }
    return out.sort((a, b) => a.x - b.x);
  }

  private memberText(
    v: Visit, i: number, item: number, x: number, y: number, w: number, h: number, group: boolean, pill: boolean, alpha: number, mark: number,
  ): void {
    if (h < (pill ? 11.5 : BLOCK_H) || w < 24 || alpha < 0.25) return;
    const { s, theme, list, scene, state } = this;
    const ink = state.overlay?.text?.[item] || theme.ink;
    const soft = state.overlay?.text?.[item] || theme.soft;
    const title = (mark === 1 ? "+ " : mark === 2 ? "− " : mark === 3 ? "~ " : "") + scene.title(v.view, i);
    const px = Math.max(MIN_PX, (pill ? SUB_PX : TITLE_PX) * s);
    const pad = pill ? 6 * s : Math.max(4, 10 * s);
    const room = w - 2 * pad;
    if (room < 14) return;
    const figure = state.overlay?.figure?.(item) ?? "";
    const sub = pill ? "" : scene.sub(v.view, i);
    const two = sub !== "" && h >= 2 * MIN_PX + 5 && s > 0.72;
    if (pill) {
      list.text({ text: title, x: x + w / 2, y: y + h / 2, px, face: "sans", color: fade(soft, alpha), align: 0.5, maxWidth: room + 4 });
      return;
    }
    const ty = two ? y + h / 2 - px * 0.63 : y + h / 2;
    // A figure takes its room from the second line where there is one: the name says more than the type.
    const beside = figure ? this.textWidth(figure, Math.max(MIN_PX, SUB_PX * s), "sans") + 8 : 0;
    const low = y + h / 2 + px * 0.53;
    list.text({ text: title, x: x + pad, y: ty, px, face: "bold", color: fade(ink, alpha), align: 0, maxWidth: room - (two ? 0 : beside) });
    if (mark === 2) {
      const w2 = Math.min(room, this.textWidth(title, px, "bold"));
      list.line(x + pad, ty, x + pad + w2, ty, 1, 1, fade(theme.removed, alpha));
    }
    if (figure) list.text({ text: figure, x: x + w - pad, y: two ? low : ty, px: Math.max(MIN_PX, SUB_PX * s), face: "sans", color: fade(soft, alpha), align: 1, maxWidth: room });
    if (two) {
      const spx = Math.max(MIN_PX, SUB_PX * s);
      list.text({ text: sub, x: x + pad, y: low, px: spx, face: group ? "sans" : "mono", color: fade(soft, alpha), align: 0, maxWidth: room - beside });
    }
  }

  private tags(v: Visit, x0: number, y0: number, x1: number, y1: number): void {
    const shape: Shape = v.view.shape;
    const { s, theme, list, scene } = this;
    const strong = this.state.strokes?.get(v.view.group);
    for (let k = 0; k < shape.tagEdge.length; k++) {
      const tx = shape.tagRect[4 * k];
      const ty = shape.tagRect[4 * k + 1];
      const tw = shape.tagRect[4 * k + 2];
      const th = shape.tagRect[4 * k + 3];
      if (tx > x1 || tx + tw < x0 || ty > y1 || ty + th < y0) continue;
      this.visited++;
      const lit = strong?.has(shape.tagEdge[k]) ?? false;
      const alpha = v.alpha * (this.dim && !lit ? 0.45 : 1);
      const x = v.x + tx * s;
      const y = v.y + ty * s;
      const w = tw * s;
      const h = th * s;
      if (h < BLOCK_H - 2) {
        list.box(x, y + h * 0.2, w, h * 0.6, h * 0.3, fade(lit ? theme.accent : theme.border, alpha * 0.8), 0, 0);
        continue;
      }
      list.box(x, y, w, h, Math.min(h / 2, 9 * Math.max(1, s)), fade(blend(theme.paper, theme.ink, 0.05), alpha), fade(lit ? theme.accent : theme.border, alpha), lit ? 1.5 : 1);
      const px = Math.max(MIN_PX, SUB_PX * s);
      const color = fade(lit ? theme.accent : theme.soft, alpha);
      const [name, type] = scene.labels[shape.tagLabel[k]].split(LINE);
      const two = type !== undefined && h >= 2 * MIN_PX;
      list.text({ text: name, x: x + w / 2, y: y + h / 2 - (two ? px * 0.6 : 0), px, face: "sans", color, align: 0.5, maxWidth: w - 4 });
      if (two) list.text({ text: type, x: x + w / 2, y: y + h / 2 + px * 0.55, px, face: "mono", color, align: 0.5, maxWidth: w - 4 });
    }
  }

  private link(l: Link, camera: Camera): void {
    const { scene, list, theme, s } = this;
    const from = scene.place(l.from);
    const view = scene.group(l.group);
    const origin = l.group === 0 ? { x: 0, y: 0 } : scene.place(scene.nodes + l.group);
    if (!from || !view || !origin) return;
    const k = view.shape.tagEdge.indexOf(l.edge);
    if (k < 0) return;
    const t = view.shape.tagRect;
    const tx = camera.x + (origin.x + t[4 * k] + t[4 * k + 2] / 2) * s;
    const ty = camera.y + (origin.y + t[4 * k + 1]) * s;
    const fx = camera.x + (from.x + from.w / 2) * s;
    const fy = camera.y + (from.y + from.h) * s;
    // Steep at both ends whatever the distance, so that it leaves and arrives like any other edge.
    const d = Math.max(40, Math.min(220, Math.abs(ty - fy) / 2 + Math.abs(tx - fx) / 6));
    list.curve(fx, fy, fx, fy + d, tx, ty - d, tx, ty, 1.5, 1.5, fade(theme.accent, 0.75));
  }

  /** A decision stands in the middle of its edge, where it does not cover either end. */
  private note(n: Note, camera: Camera): void {
    const { scene, list, theme, s } = this;
    const view = scene.group(n.group);
    const origin = n.group === 0 ? { x: 0, y: 0 } : scene.place(scene.nodes + n.group);
    if (!view || !origin || s < 0.3 || n.edge + 1 >= view.shape.pathStart.length) return;
    const { points, pathStart } = view.shape;
    const [a, b] = [pathStart[n.edge], pathStart[n.edge + 1] - 1];
    const at = (k: 0 | 1): number => (points[3 * a + k] + points[3 * b + k]) / 2;
    const x = camera.x + (origin.x + at(0)) * s;
    const y = camera.y + (origin.y + at(1)) * s;
    const w = Math.min(NOTE_WIDTH, this.textWidth(n.text, MIN_PX, "sans") + 26);
    list.box(x + 6, y - 10, w, 20, 6, theme.paper, theme.changed, 1.25);
    list.line(x + 13, y - 3, x + 19, y + 3, 1.5, 1.5, theme.changed);
    list.line(x + 19, y - 3, x + 13, y + 3, 1.5, 1.5, theme.changed);
    list.text({ text: n.text, x: x + 24, y, px: MIN_PX, face: "sans", color: theme.ink, align: 0, maxWidth: w - 24 });
  }

  /** A sheet takes a rule's colour as a tint: what lies on it must stay readable. */
  private sheet(item: number, depth: number): Rgba {
    const ruled = this.state.overlay?.sheet?.[item];
    return ruled ? blend(this.theme.sheets[depth], ruled, 0.3) : this.theme.sheets[depth];
  }

  // ---------------------------------------------------------------------------------- headers
  /** The header of a sheet stays at the window's edge while any part of the sheet is in view. */
  private header(v: Visit): void {
    const { s, theme, list, scene } = this;
    if (v.alpha < 0.5) return;
    const hh = HEADER * s;
    const place = scene.place(v.item);
    if (!place) return;
    const title = scene.title(place.view, place.index);
    const figure = this.state.overlay?.figure?.(v.item) ?? "";
    const plain = scene.sub(place.view, place.index);
    const whole = figure ? `${figure} · ${plain}` : plain;
    const lit = this.state.overlay?.lit ? this.state.overlay.lit[v.item] : 1;
    const px = Math.max(MIN_PX, TITLE_PX * s);
    if (hh < MIN_PX + 2) {
      // Content is too small to read: the sheet's name stands over it, where no outer name stands already.
      const face = v.depth < 2 || this.placed.length === 0 ? "bold" : "sans";
      if (v.w < 70 || v.h < 34) return;
      const w = Math.min(v.w - 6, this.textWidth(title, px, face) + 12);
      const lx = Math.max(v.x, 0) + 3;
      const ly = Math.max(v.y, 0) + 3;
      const lh = px * 1.5;
      if (lx + w > v.x + v.w || ly + lh > v.y + v.h || this.taken(lx, ly, w, lh)) return;
      const d = Math.min(v.depth - 1, theme.sheets.length - 1);
      list.box(lx, ly, w, lh, 4, fade(this.sheet(v.item, d), 0.88), 0, 0);
      list.text({ text: title, x: lx + 6, y: ly + lh / 2, px, face, color: fade(face === "bold" ? theme.ink : theme.soft, lit ? 1 : 0.4), align: 0, maxWidth: w - 8 });
      return;
    }
    const bar = Math.min(hh, 26);
    const top = (v.depth - 1) * bar;
    const y = Math.max(v.y, top);
    // Scrolled out but for a strip: the strip would lie over the headers of the groups around.
    if (y + bar > v.y + v.h + 1) return;
    const x = Math.max(v.x, 0);
    const right = Math.min(v.x + v.w, this.width);
    const d = Math.min(v.depth - 1, theme.sheets.length - 1);
    if (right - x < 40) return;
    if (y > v.y + 1) {
      list.rect(x + 1, y, right - x - 2, bar, this.sheet(v.item, d));
      list.rect(x + 1, y + bar, right - x - 2, 1, theme.sheetBorders[d]);
    }
    const pad = Math.max(8, 12 * Math.min(1, s));
    const room = right - x - 2 * pad;
    const tw = Math.min(room, this.textWidth(title, px, "bold"));
    const cy = y + bar / 2 + (hh > 26 && y <= v.y + 1 ? (hh - bar) / 2 : 0);
    const color = lit ? theme.ink : fade(theme.ink, 0.4);
    // Edges that come in through the header run behind its words.
    list.rect(x + pad - 3, cy - px * 0.7, tw + 6, px * 1.4, this.sheet(v.item, d));
    list.text({ text: title, x: x + pad, y: cy, px, face: "bold", color, align: 0, maxWidth: room });
    if (room - tw > 60) {
      const spx = Math.max(MIN_PX, SUB_PX * s);
      // Where both have no room, the figure that was asked for goes before what is always there.
      const sub = figure && this.textWidth(whole, spx, "sans") > room - tw - 24 ? figure : whole;
      const sw = Math.min(room - tw - 24, this.textWidth(sub, spx, "sans"));
      list.rect(right - pad - sw - 3, cy - spx * 0.7, sw + 6, spx * 1.4, this.sheet(v.item, d));
      list.text({ text: sub, x: right - pad, y: cy, px: spx, face: "sans", color: fade(theme.soft, lit ? 1 : 0.5), align: 1, maxWidth: room - tw - 24 });
    }
  }

  /** Whether a name would cover one that stands already; notes it otherwise. */
  private taken(x: number, y: number, w: number, h: number): boolean {
    for (const p of this.placed) if (x < p[0] + p[2] && p[0] < x + w && y < p[1] + p[3] && p[1] < y + h) return true;
    if (this.placed.length > 400) return true;
    this.placed.push([x, y, w, h]);
    return false;
  }
}
