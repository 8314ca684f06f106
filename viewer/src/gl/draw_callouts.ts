/** What is drawn over the edges of a graph: links to named ports, and notes of what was decided on an edge. */

import { fade } from "../base/color";
import { EXIT } from "../layout/flow";
import { MIN_PX, type Frame } from "./frame_context";
import type { Link, Note } from "./frame_state";
import type { GroupView } from "./scene";

const NOTE_WIDTH = 320;

/** A group's inside and where its origin lies in the whole drawing; null when it is folded away. */
function groupPlace({ scene }: Frame, group: number): { view: GroupView; x: number; y: number } | null {
  const view = scene.group(group);
  const origin = group === 0 ? { x: 0, y: 0 } : scene.place(scene.nodes + group);
  return view && origin ? { view, x: origin.x, y: origin.y } : null;
}

/** A curve from an item to the named port that stands for its edge. */
export function drawLink(frame: Frame, l: Link): void {
  const { scene, list, theme, camera, scale: s } = frame;
  const from = scene.place(l.from);
  const origin = groupPlace(frame, l.group);
  if (!from || !origin) return;
  const { tagEdge, tagRect: t } = origin.view.shape;
  const k = tagEdge.indexOf(l.edge);
  if (k < 0) return;
  if (origin.view.shape.tagEnd[k] !== 0) {
    drawContinuation(frame, origin.view, origin.x, origin.y, origin.view.shape.tagMore[k]);
    return;
  }
  const tx = camera.x + (origin.x + t[4 * k] + t[4 * k + 2] / 2) * s;
  const ty = camera.y + (origin.y + t[4 * k + 1]) * s;
  const fx = camera.x + (from.x + from.w / 2) * s;
  const fy = camera.y + (from.y + from.h) * s;
  // Steep at both ends whatever the distance, so that it leaves and arrives like any other edge.
  const d = Math.max(40, Math.min(220, Math.abs(ty - fy) / 2 + Math.abs(tx - fx) / 6));
  list.curve(fx, fy, fx, fy + d, tx, ty - d, tx, ty, 1.5, 1.5, fade(theme.accent, 0.75));
}

/** Curves from the sign where a wrapped edge leaves its column to those where it goes on. */
function drawContinuation(
  { list, theme, camera, scale: s }: Frame,
  view: GroupView,
  x: number,
  y: number,
  number: number,
): void {
  const { tagEnd, tagMore, tagRect: t } = view.shape;
  const at = (k: number): [number, number] => [
    camera.x + (x + t[4 * k] + t[4 * k + 2] / 2) * s,
    camera.y + (y + t[4 * k + 1] + t[4 * k + 3] / 2) * s,
  ];
  const ends = [...tagEnd.keys()].filter((k) => tagEnd[k] !== 0 && tagMore[k] === number);
  const exit = ends.find((k) => tagEnd[k] === EXIT);
  if (exit === undefined) return;
  const [fx, fy] = at(exit);
  for (const k of ends) {
    if (k === exit) continue;
    const [tx, ty] = at(k);
    const d = Math.max(40, Math.abs(tx - fx) / 2);
    list.curve(fx, fy, fx + d, fy, tx - d, ty, tx, ty, 1.5, 1.5, fade(theme.accent, 0.75));
  }
}

/** A decision stands in the middle of its edge, where it does not cover either end. */
export function drawNote(frame: Frame, n: Note): void {
  const { list, theme, camera, scale: s } = frame;
  const origin = groupPlace(frame, n.group);
  if (!origin || s < 0.3 || n.edge + 1 >= origin.view.shape.pathStart.length) return;
  const { points, pathStart } = origin.view.shape;
  const [a, b] = [pathStart[n.edge], pathStart[n.edge + 1] - 1];
  const at = (k: 0 | 1): number => (points[3 * a + k] + points[3 * b + k]) / 2;
  const x = camera.x + (origin.x + at(0)) * s;
  const y = camera.y + (origin.y + at(1)) * s;
  const w = Math.min(NOTE_WIDTH, frame.textWidth(n.text, MIN_PX, "sans") + 26);
  list.box(x + 6, y - 10, w, 20, 6, theme.paper, theme.changed, 1.25);
  list.line(x + 13, y - 3, x + 19, y + 3, 1.5, 1.5, theme.changed);
  list.line(x + 19, y - 3, x + 13, y + 3, 1.5, 1.5, theme.changed);
  list.text({ text: n.text, x: x + 24, y, px: MIN_PX, face: "sans", color: theme.ink, align: 0, maxWidth: w - 24 });
}
