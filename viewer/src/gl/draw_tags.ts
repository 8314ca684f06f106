/** How a named port is drawn: the small sign in a group that stands for the far end of a long edge. */

import { blend, fade } from "../base/color";
import { LINE } from "../layout/labels";
import { NAMES, SUB_PX } from "../layout/style";
import { BLOCK_H, MIN_PX, type Frame, type Visit, type Clip } from "./frame_context";

export function drawTags(frame: Frame, v: Visit, { x0, y0, x1, y1 }: Clip): void {
  const { shape } = v.view;
  const { scale: s, theme, list, scene } = frame;
  const strong = frame.state.strokes?.get(v.view.group);
  for (let k = 0; k < shape.tagEdge.length; k++) {
    const tx = shape.tagRect[4 * k];
    const ty = shape.tagRect[4 * k + 1];
    const tw = shape.tagRect[4 * k + 2];
    const th = shape.tagRect[4 * k + 3];
    if (tx > x1 || tx + tw < x0 || ty > y1 || ty + th < y0) continue;
    frame.visited++;
    const lit = strong?.has(shape.tagEdge[k]) ?? false;
    const alpha = v.alpha * (frame.dim && !lit && !v.chosen ? 0.45 : 1);
    const x = v.x + tx * s;
    const w = tw * s;
    // The sign of a wrapped edge is the edge: as long as boxes have names, it has its letter.
    const h = shape.tagEnd[k] && s >= NAMES ? Math.max(th * s, BLOCK_H) : th * s;
    const y = v.y + (ty + th / 2) * s - h / 2;
    if (h < BLOCK_H - 2) {
      list.box(x, y + h * 0.2, w, h * 0.6, h * 0.3, fade(lit ? theme.accent : theme.border, alpha * 0.8), 0, 0);
      continue;
    }
    list.box(
      x,
      y,
      w,
      h,
      Math.min(h / 2, 9 * Math.max(1, s)),
      fade(blend(theme.paper, theme.ink, 0.05), alpha),
      fade(lit ? theme.accent : theme.border, alpha),
      lit ? 1.5 : 1,
    );
    const px = Math.max(MIN_PX, SUB_PX * frame.textScale);
    const color = fade(lit ? theme.accent : theme.soft, alpha);
    const [name, type] = scene.labels[shape.tagLabel[k]].split(LINE);
    const two = type !== undefined && h >= 2 * MIN_PX;
    list.text({
      text: name,
      x: x + w / 2,
      y: y + h / 2 - (two ? px * 0.6 : 0),
      px,
      face: "sans",
      color,
      align: 0.5,
      maxWidth: w - 4,
    });
    if (two)
      list.text({
        text: type,
        x: x + w / 2,
        y: y + h / 2 + px * 0.55,
        px,
        face: "mono",
        color,
        align: 0.5,
        maxWidth: w - 4,
      });
  }
}
