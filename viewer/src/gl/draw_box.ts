/** How a node or a folded group is drawn: colours, marks and words, each from the size on at which it can be read. */

import { blend, fade, type Rgba } from "../base/color";
import { FAMILIES } from "../layout/family";
import { CHANGE_BITS, CHANGE_SHIFT, HAS_INSIDE, IS_GROUP, IS_REPEAT, IS_SOURCE } from "../layout/scene_update";
import { LEAF_H, RADIUS, SUB_PX, TITLE_PX } from "../layout/style";
import { HATCHED, PLAIN } from "./draw_list";
import { BLOCK_H, MIN_PX, type Frame, type Member } from "./frame_context";

/** In a box lower than this two lines of the smallest letters stand closer, and a bar lies on the border under them. */
const ROOMY = 2 * MIN_PX + 8;

// What a pass or the other graph did to a node.
const ADDED = 1;
const REMOVED = 2;
const CHANGED = 3;
const CHANGE_SIGN: Record<number, string> = { [ADDED]: "+ ", [REMOVED]: "− ", [CHANGED]: "~ " };

export function drawBox(frame: Frame, m: Member): void {
  const { scale: s, theme, list, state } = frame;
  const { item, flags, x, y, w, h, alpha, selected } = m;
  const { overlay } = state;
  const { shape, batch, first } = m.parent.view;
  const family = batch.family[first + m.index];
  const group = (flags & IS_GROUP) !== 0;
  const source = (flags & IS_SOURCE) !== 0;
  const pill = shape.small[m.index] === 1;
  const fill = overlay?.fill?.[item] || (group ? theme.folded : theme.familyFill[family]);
  if (h < 4) {
    // Far away: one flat mark, coloured by family.
    list.rect(
      x,
      y,
      w,
      Math.max(0.8, h),
      fade(overlay?.fill?.[item] || blend(fill, theme.familyEdge[family], 0.55), alpha),
    );
    return;
  }
  if (pill && h < BLOCK_H - 2) {
    list.box(x, y + h * 0.2, w, h * 0.6, h * 0.3, fade(theme.border, alpha * 0.8), 0, 0);
    return;
  }
  let border = overlay?.border?.[item] || (group ? theme.foldedBorder : theme.border);
  if (selected) border = theme.accent;
  else if (m.hover) border = theme.ink;
  if (group && flags & IS_REPEAT && h > 10) drawPile(frame, m, fill, border);
  const change = overlay?.mark?.[item] || (flags >> CHANGE_SHIFT) & CHANGE_BITS;
  const marked = change !== 0 && !selected;
  if (marked) border = change === ADDED ? theme.added : change === REMOVED ? theme.removed : theme.changed;
  const radius =
    pill || source
      ? Math.min(h / 2, 9 * Math.min(1.4, Math.max(1, s)))
      : Math.min(RADIUS * Math.min(1.4, Math.max(0.6, s)), h / 2.5);
  const stripe = source || pill ? 0 : Math.min(4, 4 * Math.max(0.5, s));
  const pattern = !group && FAMILIES[family] === "opaque" ? HATCHED : PLAIN;
  list.box(
    x,
    y,
    w,
    h,
    radius,
    fade(fill, alpha),
    fade(border, alpha),
    marked ? 1.75 : m.borderWidth,
    stripe,
    fade(theme.familyEdge[family], alpha),
    pattern,
  );
  const bars = flags & IS_REPEAT && h > 24 ? (overlay?.bars?.(item) ?? null) : null;
  const share = overlay?.share?.[item] ?? 0;
  if (bars) drawBars(frame, m, bars);
  else if (share > 0 && h > 16)
    list.box(
      x + 6,
      y + h - (h < ROOMY ? 2 : 4),
      Math.max(1, (w - 12) * share),
      2,
      1,
      fade(theme.ink, 0.55 * alpha),
      0,
      0,
    );
  drawWords(frame, m, pill, change);
  if (signRoom(frame, m) > 0) drawUnfoldSign(frame, m);
}

/** A run of identical groups is a small pile: the edges of two more sheets show. */
function drawPile({ scale, list, theme }: Frame, { x, y, w, h, alpha }: Member, fill: Rgba, border: Rgba): void {
  const d = Math.round(3 * Math.min(1.4, Math.max(0.6, scale)));
  for (let k = 1; k < 3; k++) {
    const tone = fade(blend(fill, theme.edge, 0.1 * k), alpha);
    const line = fade(border, alpha);
    list.rect(x + w + (k - 1) * d, y + k * d + 2, d, h - 2, tone);
    list.rect(x + k * d + 2, y + h + (k - 1) * d, w - 2, d, tone);
    list.rect(x + w + k * d - 1, y + k * d + 2, 1, h - 3, line);
    list.rect(x + k * d + 2, y + h + k * d - 1, w - 3, 1, line);
  }
}

/** One bar for each member of a run: a layer that differs from its equals is seen while they are folded. */
function drawBars({ list, theme, state }: Frame, { x, y, w, h, alpha, item }: Member, values: Float32Array): void {
  const most = values.reduce((a, v) => Math.max(a, v), 0);
  if (!(most > 0)) return;
  const room = w - 12;
  const step = room / values.length;
  const tall = Math.min(9, h * 0.2);
  const ink = fade(state.overlay?.text?.[item] || theme.ink, 0.6 * alpha);
  // More members than pixels: each column shows the largest of those that share it.
  const columns = Math.max(1, Math.min(values.length, Math.floor(room / 2)));
  for (let k = 0; k < columns; k++) {
    let v = 0;
    for (let i = Math.floor((k * values.length) / columns); i < Math.floor(((k + 1) * values.length) / columns); i++)
      v = Math.max(v, values[i]);
    const each = (step * values.length) / columns;
    const up = Math.max(1, (v / most) * tall);
    list.rect(x + 6 + k * each, y + h - 2 - up, Math.max(1, each - 1), up, ink);
  }
}

/** What the sign of a box that holds ops takes of its corner; nothing where the box is too small for a name beside it. */
function signRoom({ textScale: s }: Frame, { flags, w, h }: Member): number {
  return flags & HAS_INSIDE && h >= BLOCK_H && w - 2 * Math.max(4, 10 * s) - SIGN >= NAME ? SIGN : 0;
}

const SIGN = 14;
const NAME = 40;

/** A node that holds ops says so: a small plus in its corner, as large as a letter. */
function drawUnfoldSign({ textScale: s, list, theme }: Frame, { x, y, w, alpha }: Member): void {
  const arm = Math.max(3, 3.5 * Math.min(1.4, s));
  const cx = Math.round(x + w - Math.max(8, 10 * s));
  const cy = Math.round(y + Math.max(8, 11 * s));
  const color = fade(theme.soft, alpha);
  list.line(cx - arm, cy, cx + arm, cy, 1.25, 1.25, color);
  list.line(cx, cy - arm, cx, cy + arm, 1.25, 1.25, color);
}

/** Title, second line and figure, as far as there is room for them. */
function drawWords(frame: Frame, m: Member, pill: boolean, change: number): void {
  const { x, y, w, h, alpha } = m;
  if (h < (pill ? 11.5 : BLOCK_H) || w < 24 || alpha < 0.25) return;
  const { theme, list, scene, state } = frame;
  const { view } = m.parent;
  const ink = state.overlay?.text?.[m.item] || theme.ink;
  const soft = state.overlay?.text?.[m.item] || theme.soft;
  const title = (CHANGE_SIGN[change] ?? "") + scene.title(view, m.index);
  const ts = frame.textScale;
  const px = Math.max(MIN_PX, (pill ? SUB_PX : TITLE_PX) * ts);
  const pad = pill ? 6 * ts : Math.max(4, 10 * ts);
  const room = w - 2 * pad;
  if (room < 14) return;
  if (pill) {
    list.text({
      text: title,
      x: x + w / 2,
      y: y + h / 2,
      px,
      face: "sans",
      color: fade(soft, alpha),
      align: 0.5,
      maxWidth: room + 4,
    });
    return;
  }
  const asked = state.overlay?.figure?.(m.item) ?? "";
  const sub = scene.sub(view, m.index);
  // In all boxes or in none: the lowest that has two lines decides.
  const two = sub !== "" && frame.scale * LEAF_H >= 2 * MIN_PX + 3;
  const spx = Math.max(MIN_PX, SUB_PX * ts);
  const facts = factsFor(frame, m, spx);
  // The lines stand in the middle of the box, whatever their number.
  const middle = y + h / 2 - (facts.length * spx * FACT_LINE) / 2;
  const lead = h < ROOMY ? 0.06 * px : 0;
  const ty = two ? middle - px * 0.63 + lead : middle;
  // The sign of a box that holds ops has its corner to itself.
  const corner = signRoom(frame, m);
  // A figure takes its room from the second line where there is one: the name says more than the type. In a
  // single line it gives way to a name that would be cut for it.
  const fits = two || frame.textWidth(title, px, "bold") + frame.textWidth(asked, spx, "sans") + 8 <= room - corner;
  const figure = fits ? asked : "";
  const beside = figure ? frame.textWidth(figure, spx, "sans") + 8 : 0;
  const low = middle + px * 0.53 - lead;
  list.text({
    text: title,
    x: x + pad,
    y: ty,
    px,
    face: "bold",
    color: fade(ink, alpha),
    align: 0,
    maxWidth: room - corner - (two ? 0 : beside),
  });
  if (change === REMOVED) {
    const w2 = Math.min(room, frame.textWidth(title, px, "bold"));
    list.line(x + pad, ty, x + pad + w2, ty, 1, 1, fade(theme.removed, alpha));
  }
  if (figure)
    list.text({
      text: figure,
      x: x + w - pad - (two ? 0 : corner),
      y: two ? low : ty,
      px: spx,
      face: "sans",
      color: fade(soft, alpha),
      align: 1,
      maxWidth: room,
    });
  if (two) {
    const face = m.flags & IS_GROUP ? "sans" : "mono";
    list.text({
      text: shorter(sub, (text) => frame.textWidth(text, spx, face) <= room - beside) ?? (figure ? "" : sub),
      x: x + pad,
      y: low,
      px: spx,
      face,
      color: fade(soft, alpha),
      align: 0,
      maxWidth: room - beside,
    });
  }
  facts.forEach((text, k) => {
    list.text({
      text,
      x: x + pad,
      y: low + (k + 1) * spx * FACT_LINE,
      px: spx,
      face: "mono",
      color: fade(soft, alpha),
      align: 0,
      maxWidth: room,
    });
  });
}

/**
 * What is left of "Linear + gelu" or "BertLayer · 7 ops" beside a figure: whole words or nothing, never "Linea…". Ops that
 * have no room are counted ("take + 2 more"), and only where that has none either the first stands for all.
 */
export function shorter(text: string, fits: (text: string) => boolean): string | undefined {
  const named = text.split(" · ", 1)[0];
  const ops = named.split(" + ");
  const counted = ops.slice(2).map((_, k) => `${ops.slice(0, ops.length - 2 - k).join(" + ")} + ${k + 2} more`);
  return [text, named, ...counted, ops[0]].find(fits);
}

/** Height of a line of facts, in letters. */
const FACT_LINE = 1.3;
/** From this scale on a box of two lines has room for a third. */
const FACTS_FROM = 1.4;

/** What a box that is looked at closely says beside its name and type, as many lines as it has room for. */
function factsFor({ scale, state }: Frame, m: Member, px: number): readonly string[] {
  if (!state.facts || scale < FACTS_FROM) return [];
  const lines = Math.floor((m.h - 3.4 * px) / (px * FACT_LINE));
  return lines > 0 ? state.facts(m.item).slice(0, lines) : [];
}
