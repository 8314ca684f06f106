/** Which edges of a group are drawn, how strong, and which of them say what they carry. */

import { fade, type Rgba } from "../base/color";
import { IS_OPEN, type Shape } from "../layout/scene_update";
import { SHAPES_FROM, STEM, SUB_PX } from "../layout/style";
import { EDGE, TAG } from "../layout/template";
import { MIN_PX, type Frame, type Visit, type Clip } from "./frame_context";
import { edgeBounds, indexOf } from "./spatial";
import { STRAIGHT, type Pen } from "./stroke";

export function drawEdges(frame: Frame, pen: Pen, v: Visit): void {
  const { scale: s, state, theme } = frame;
  const shape = v.view.shape;
  // Below this the strokes of a group would be a grey mist.
  if (s < 0.05) return;
  const strong = state.strokes?.get(v.view.group);
  const strength = Math.min(1, Math.max(0, (s - 0.05) / 0.15)) * v.alpha;
  const base = fade(theme.edge, strength * (frame.dim && !v.chosen ? 0.3 : 1));
  const width = s < 0.4 ? 0.9 : 1.25;
  const index = indexOf(shape);
  const clip = frame.clip(v);
  const { x0, y0, x1, y1 } = clip;
  const one = (e: number): void => {
    if (strong?.has(e)) return;
    if (shape.edgeKind[e] === TAG && s < 0.3) return;
    stroke(frame, pen, v, e, base, width);
  };
  if (index) index.edges.query(x0, y0, x1, y1, one);
  else {
    const b = edgeBounds(shape);
    for (let e = 0; e < shape.edgeSrc.length; e++) {
      if (b[4 * e] <= x1 && b[4 * e + 2] >= x0 && b[4 * e + 1] <= y1 && b[4 * e + 3] >= y0) one(e);
    }
  }
  if (strong) for (const e of strong) stroke(frame, pen, v, e, fade(theme.accent, v.alpha), 2);
  if (s >= SHAPES_FROM) edgeLabels(frame, v, clip);
}

function stroke(frame: Frame, pen: Pen, v: Visit, e: number, color: Rgba, width: number): void {
  frame.visited++;
  const { scale: s, list, scene, state } = frame;
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
    } else if (Number.isNaN(bend)) {
      // The gap of a wrapped edge: it goes on at its other sign.
      if (px !== ax || py !== ay) pen.stretch(ax, ay, px, py, 0, width, color);
      ax = x;
      ay = y;
    } else if (bend !== 0 || Math.abs(scene.across ? y - ay : x - ax) >= STRAIGHT) {
      // A step too short to be seen is left out; the next one starts where the last drawn one ended.
      if (bend === 0 && i + 1 < to && Math.abs(x - px) + Math.abs(y - py) < 1.2) continue;
      if (px !== ax || py !== ay) pen.stretch(ax, ay, px, py, 0, width, color);
      pen.stretch(px, py, x, y, bend, width, color);
      ax = x;
      ay = y;
    }
    px = x;
    py = y;
  }
  if (px !== ax || py !== ay) pen.stretch(ax, ay, px, py, 0, width, color);
  const dst = shape.edgeDst[e];
  if (
    s > 0.45 &&
    shape.edgeKind[e] === EDGE &&
    dst >= 0 &&
    to - from > 1 &&
    !(v.view.batch.flags[v.view.first + dst] & IS_OPEN)
  ) {
    const a = Math.min(6, 6.5 * s);
    const [dx, dy] = arrival(p, to - 1, scene.across);
    list.line(px - a * dx, py - a * dy, px, py, a * 0.95, 0, color);
  }
}

/** The direction in which a path arrives at point `i`: along the flow, but at the side of a box where a skip runs straight to it. */
function arrival(p: Float32Array, i: number, across: boolean): readonly [dx: number, dy: number] {
  const bend = p[3 * i + 2];
  const [x, y] = [p[3 * i] - p[3 * i - 3], p[3 * i + 1] - p[3 * i - 2]];
  const along = bend !== 0 ? -bend : across ? x : y;
  const aside = across ? y : x;
  const straight = bend === 0 && Math.abs(along) < 0.01;
  const d = Math.sign(straight ? aside : along) || 1;
  return straight === across ? [0, d] : [d, 0];
}

/** What is written beside the edges of a box: the shape that one of them carries, left of all of them. */
interface Written {
  readonly label: number;
  readonly edge: number;
}

const writtenIn = new WeakMap<Shape, readonly Written[]>();

/** Edges of one box leave close together: there is room for one shape. */
function labelled(shape: Shape): readonly Written[] {
  let found = writtenIn.get(shape);
  if (!found) {
    const first = new Map<number, Written>();
    const at = (e: number): number => shape.points[3 * shape.pathStart[e]];
    for (let e = 0; e < shape.edgeLabel.length; e++) {
      if (shape.edgeKind[e] !== EDGE || shape.edgeSrc[e] < 0) continue;
      const known = first.get(shape.edgeSrc[e]);
      const edge = known && at(known.edge) <= at(e) ? known.edge : e;
      first.set(shape.edgeSrc[e], { label: known?.label || shape.edgeLabel[e], edge });
    }
    writtenIn.set(shape, (found = [...first.values()].filter((w) => w.label !== 0)));
  }
  return found;
}

function edgeLabels(frame: Frame, v: Visit, { x0, y0, x1, y1 }: Clip): void {
  const shape = v.view.shape;
  const { scale: s, theme, list, scene } = frame;
  if (v.alpha < 1) return;
  const p = shape.points;
  for (const { label, edge } of labelled(shape)) {
    const i = shape.pathStart[edge];
    const text = scene.labels[label];
    // Beside the stem under the producer, where edges of one row have not crossed yet; skips leave to the right.
    const wx = p[3 * i] + (scene.across ? 6 : -5);
    // An edge that turns back leaves to where it swings out, wherever it ends.
    const turn = p[3 * i + 5];
    const rises = (turn === 0 || Number.isNaN(turn) ? p[3 * i + 4] - p[3 * i + 1] : turn) < 0 ? -1 : 1;
    const wy = p[3 * i + 1] + (scene.across ? -8 : rises * (STEM / 2 + 1));
    if (scene.across && p[3 * i + 3] - p[3 * i] < text.length * 6.8 + 10) continue;
    if (wx < x0 - 180 || wx > x1 + 180 || wy < y0 || wy > y1) continue;
    const px = Math.max(MIN_PX, (SUB_PX - 0.5) * frame.textScale);
    list.text({
      text,
      x: v.x + wx * s,
      y: v.y + wy * s,
      px,
      face: "mono",
      color: fade(theme.soft, frame.dim && !v.chosen ? 0.5 : 1),
      align: scene.across ? 0 : 1,
      maxWidth: 180 * s,
    });
  }
}
