/** How an unfolded group is drawn: a sheet with its members on it, or a block where they could not be read. */

import { blend, fade } from "../base/color";
import { IS_OPEN } from "../layout/scene_update";
import { RADIUS } from "../layout/style";
import { PLAIN, type Hole } from "./draw_list";
import { MIN_PX, type Frame, type Member, type Visit } from "./frame_context";
import type { GroupView } from "./scene";

/** A group smaller than this on screen is a block. */
const BLOCK_GROUP = 26;

/** The inside that is still to be drawn; null where the group is too small to look into. */
export function drawSheet(frame: Frame, m: Member): Visit | null {
  const { scale: s, theme, list, state, scene } = frame;
  const { parent: v, index, item, x, y, w, h, alpha } = m;
  const { overlay } = state;
  const open = scene.open(v.view, index);
  const d = Math.min(v.depth, theme.sheets.length - 1);
  const ruled = overlay?.border?.[item] || overlay?.sheet?.[item];
  const border = m.selected ? theme.accent : m.hover ? theme.foldedBorder : ruled || theme.sheetBorders[d];
  const radius = Math.min(8, RADIUS * Math.max(1, s));
  if (open && Math.min(w, h) > BLOCK_GROUP && w * h > 2200) {
    list.box(
      x,
      y,
      w,
      h,
      radius,
      fade(frame.sheetColor(item, d), alpha),
      fade(border, alpha),
      m.borderWidth,
      0,
      0,
      PLAIN,
      holes(frame, open, m),
    );
    return { view: open, item, x, y, w, h, depth: v.depth + 1, alpha, chosen: v.chosen || m.selected };
  }
  const family = v.view.batch.family[v.view.first + index];
  const fill = overlay?.fill?.[item] || blend(theme.sheets[d], theme.familyEdge[family], 0.28);
  list.box(
    x,
    y,
    w,
    h,
    Math.min(radius, h / 6, w / 6),
    fade(fill, alpha),
    fade(border, alpha),
    s < 0.1 && !m.selected ? 0 : m.borderWidth,
  );
  // What tells it from its siblings, when that is short: the number of a layer.
  const name = scene.title(v.view, index).replace(/^.*\./, "");
  if (w > 18 && h > 13 && name.length < 5) {
    list.text({
      text: name,
      x: x + w / 2,
      y: y + h / 2,
      px: MIN_PX,
      face: "sans",
      color: fade(theme.soft, alpha),
      align: 0.5,
      maxWidth: w - 2,
    });
  }
  return null;
}

/** Where large inner sheets will cover a sheet, less a margin for their borders and round corners. */
function holes(frame: Frame, view: GroupView, { x, y, w, h }: Member): Hole[] {
  const out: Hole[] = [];
  if (w * h < 20000 || view.count > 64 || frame.state.tween) return out;
  const { scale: s, state } = frame;
  const r = view.shape.rect;
  for (let i = 0; i < view.count; i++) {
    if (!(view.batch.flags[view.first + i] & IS_OPEN)) continue;
    const hole: Hole = {
      x: x + r[4 * i] * s + 10,
      y: y + r[4 * i + 1] * s + 10,
      w: r[4 * i + 2] * s - 20,
      h: r[4 * i + 3] * s - 20,
    };
    if (hole.w * hole.h < 4000 || Math.min(hole.w, hole.h) < 30) continue;
    if (hole.x > frame.width || hole.y > frame.height || hole.x + hole.w < 0 || hole.y + hole.h < 0) continue;
    const lit = state.overlay?.lit;
    if (lit && !lit[view.batch.item[view.first + i]]) continue;
    out.push(hole);
  }
  return out.sort((a, b) => a.x - b.x);
}
