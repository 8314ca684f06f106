/** Which members of a group are drawn, where each lies, and whether as a box, an open sheet or a tone. */

import { IS_GROUP, IS_OPEN } from "../layout/scene_update";
import { LEAF_H } from "../layout/style";
import { DENSE_FROM, denseGrid } from "./dense";
import { drawBox } from "./draw_box";
import { drawSheet } from "./draw_sheet";
import { drawTags } from "./draw_tags";
import type { Clip, Frame, Member, Visit } from "./frame_context";
import { indexOf } from "./spatial";

/** Draws a group's members; those that are open and large enough to look into are added to `inner`. */
export function drawMembers(frame: Frame, v: Visit, inner: Visit[]): void {
  const { scale: s } = frame;
  const shape = v.view.shape;
  const clip = frame.clip(v);
  const { x0, y0, x1, y1 } = clip;
  const index = indexOf(shape);
  const tween = frame.state.tween;
  if (v.view.count >= DENSE_FROM && s * LEAF_H < 2.5) {
    drawDense(frame, v, clip);
    return;
  }
  const one = (i: number): void => drawMember(frame, v, i, inner);
  if (index && !tween) index.members.query(x0, y0, x1, y1, one);
  else {
    for (let i = 0; i < v.view.count; i++) {
      const r = tween ? tween.rectOf(v.view, i) : shape.rect.subarray(4 * i, 4 * i + 4);
      if (r[0] <= x1 && r[0] + r[2] >= x0 && r[1] <= y1 && r[1] + r[3] >= y0) one(i);
    }
  }
  if (s >= 0.3) drawTags(frame, v, clip);
}

/** Boxes too small to tell apart: tones instead, and the chosen one on top. */
function drawDense(frame: Frame, v: Visit, { x0, y0, x1, y1 }: Clip): void {
  const { scale: s, list, theme, state } = frame;
  const grid = denseGrid(v.view, s, theme, state.overlay?.fill);
  const side = grid.side;
  const size = side * s;
  for (let c = 0; c < grid.x.length; c++) {
    const gx = grid.x[c] * side;
    const gy = grid.y[c] * side;
    if (gx > x1 || gx + side < x0 || gy > y1 || gy + side < y0) continue;
    frame.visited++;
    list.rect(v.x + gx * s, v.y + gy * s, size, size, grid.color[c]);
  }
  for (const item of [state.hover, state.selected]) {
    const p = item >= 0 ? frame.scene.place(item) : null;
    if (p && p.view === v.view)
      list.box(v.x + p.x * s - 3, v.y + p.y * s - 3, p.w * s + 6, p.h * s + 6, 4, theme.accent, theme.paper, 1);
  }
}

function drawMember(frame: Frame, parent: Visit, index: number, inner: Visit[]): void {
  frame.visited++;
  const { scale: s, state } = frame;
  const { shape, batch, first } = parent.view;
  const r = shape.rect;
  let rx = r[4 * index];
  let ry = r[4 * index + 1];
  let rw = r[4 * index + 2];
  let rh = r[4 * index + 3];
  if (rw === 0) return;
  let alpha = parent.alpha;
  if (state.tween) {
    [rx, ry, rw, rh] = state.tween.rectOf(parent.view, index);
    alpha *= state.tween.alphaOf(parent.view, index);
  }
  const item = batch.item[first + index];
  const flags = batch.flags[first + index];
  const selected = item === state.selected;
  const hover = item === state.hover;
  // An open group does not recede: what is lit inside it must stay bright.
  const lit = state.overlay?.lit;
  if (lit && !(flags & IS_OPEN) && lit[item] === 0) alpha *= 0.3;
  const borderWidth = selected ? 2 : hover ? 1.5 : 1;
  const x = parent.x + rx * s;
  const y = parent.y + ry * s;
  const m: Member = { parent, index, item, flags, x, y, w: rw * s, h: rh * s, alpha, selected, hover, borderWidth };
  if (flags & IS_GROUP && flags & IS_OPEN) {
    const sheet = drawSheet(frame, m);
    if (sheet) inner.push(sheet);
  } else drawBox(frame, m);
}
