/** What is under the pointer: the innermost box that is drawn as a box there. */

import { HAS_INSIDE, IS_GROUP, IS_OPEN } from "../layout/scene_update";
import { HEADER } from "../layout/style";
import type { Camera } from "./camera";
import type { GroupView, Scene } from "./scene";
import { indexOf } from "./spatial";

export interface Hit {
  readonly item: number;
  readonly view: GroupView;
  readonly index: number;
  readonly group: boolean;
  /** Can be unfolded, or is. */
  readonly unfolds: boolean;
  readonly open: boolean;
  /** On the header of an open group, rather than on its sheet. */
  readonly header: boolean;
}

export function hitTest(scene: Scene, camera: Camera, sx: number, sy: number): Hit | null {
  let view = scene.root;
  let x = camera.worldX(sx);
  let y = camera.worldY(sy);
  let found: Hit | null = null;
  while (view) {
    const i = memberAt(view, x, y);
    if (i < 0) break;
    const r = view.shape.rect;
    const flags = view.batch.flags[view.first + i];
    const open = (flags & IS_OPEN) !== 0;
    const dy = (y - r[4 * i + 1]) * camera.scale;
    found = {
      item: view.batch.item[view.first + i],
      view,
      index: i,
      group: (flags & IS_GROUP) !== 0,
      unfolds: (flags & (IS_GROUP | HAS_INSIDE)) !== 0,
      open,
      header: open && dy < Math.max(20, HEADER * camera.scale),
    };
    // A group drawn as a block has no inside to point at.
    if (!open || Math.min(r[4 * i + 2], r[4 * i + 3]) * camera.scale <= 26) break;
    x -= r[4 * i];
    y -= r[4 * i + 1];
    view = scene.open(view, i);
  }
  return found;
}

export interface TagHit {
  readonly group: number;
  readonly edge: number;
}

/** The named port under the pointer, in the innermost open group there. */
export function hitTag(scene: Scene, camera: Camera, sx: number, sy: number): TagHit | null {
  if (camera.scale < 0.3) return null;
  let view = scene.root;
  let x = camera.worldX(sx);
  let y = camera.worldY(sy);
  while (view) {
    const t = view.shape.tagRect;
    for (let k = 0; k < view.shape.tagEdge.length; k++) {
      if (view.shape.tagEdge[k] < 0) continue;
      if (x >= t[4 * k] && y >= t[4 * k + 1] && x <= t[4 * k] + t[4 * k + 2] && y <= t[4 * k + 1] + t[4 * k + 3]) {
        return { group: view.group, edge: view.shape.tagEdge[k] };
      }
    }
    const i = memberAt(view, x, y);
    if (i < 0) return null;
    x -= view.shape.rect[4 * i];
    y -= view.shape.rect[4 * i + 1];
    view = scene.open(view, i);
  }
  return null;
}

function memberAt(view: GroupView, x: number, y: number): number {
  const r = view.shape.rect;
  let found = -1;
  const inside = (i: number): void => {
    if (
      x >= r[4 * i] &&
      y >= r[4 * i + 1] &&
      x <= r[4 * i] + r[4 * i + 2] &&
      y <= r[4 * i + 1] + r[4 * i + 3] &&
      r[4 * i + 2] > 0
    )
      found = i;
  };
  const index = indexOf(view.shape);
  if (index) index.members.query(x, y, x, y, inside);
  else for (let i = 0; i < view.count; i++) inside(i);
  return found;
}
