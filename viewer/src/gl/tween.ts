/** How a change of place is shown: members glide from where they were, new ones fade in. */

import type { GroupView, Scene } from "./scene";

export const TWEEN_MS = 160;

/** Places before the change, relative to the group that holds each item. */
export class Tween {
  /** 0 at the start, 1 at the end (eased). */
  t = 0;
  private readonly old = new Map<number, Float32Array>();
  private readonly sizes = new Map<number, { w: number; h: number }>();
  private readonly out = new Float32Array(4);
  private readonly shift = new Float32Array(4);

  /** Notes the groups about to change; with many, nobody could follow them all, and only the first are kept. */
  constructor(scene: Scene, groups: Iterable<number>) {
    let budget = 4000;
    for (const g of groups) {
      const view = scene.group(g);
      if (!view) continue;
      this.sizes.set(g, { w: view.shape.w, h: view.shape.h });
      budget -= view.count;
      if (budget < 0) break;
      for (let i = 0; i < view.count; i++)
        this.old.set(view.batch.item[view.first + i], view.shape.rect.slice(4 * i, 4 * i + 4));
    }
  }

  setTime(ms: number): boolean {
    const p = Math.min(1, ms / TWEEN_MS);
    this.t = 1 - (1 - p) ** 3;
    return p >= 1;
  }

  rectOf(view: GroupView, i: number): Float32Array {
    const r = view.shape.rect;
    const o = this.old.get(view.batch.item[view.first + i]);
    const out = this.out;
    for (let k = 0; k < 4; k++) out[k] = o && o[2] > 0 ? o[k] + (r[4 * i + k] - o[k]) * this.t : r[4 * i + k];
    return out;
  }

  alphaOf(view: GroupView, i: number): number {
    return this.old.has(view.batch.item[view.first + i]) || this.old.size === 0 ? 1 : this.t;
  }

  sizeOf(view: GroupView): { w: number; h: number } {
    const o = this.sizes.get(view.group);
    if (!o) return view.shape;
    return { w: o.w + (view.shape.w - o.w) * this.t, h: o.h + (view.shape.h - o.h) * this.t };
  }

  /** How far the two ends of an edge still are from their places: dx, dy at the start, dx, dy at the end. */
  edgeShift(view: GroupView, e: number): Float32Array {
    const { edgeSrc, edgeDst } = view.shape;
    this.delta(view, edgeSrc[e], 0, true);
    this.delta(view, edgeDst[e], 2, false);
    return this.shift;
  }

  private delta(view: GroupView, member: number, at: number, source: boolean): void {
    this.shift[at] = this.shift[at + 1] = 0;
    if (member < 0) return;
    const r = view.shape.rect;
    const o = this.old.get(view.batch.item[view.first + member]);
    if (!o || o[2] === 0) return;
    const k = 1 - this.t;
    // Middles move with the box; the end of an edge sits on the box's lower (source) or upper border.
    this.shift[at] = (o[0] + o[2] / 2 - r[4 * member] - r[4 * member + 2] / 2) * k;
    const edge = source ? 1 : 0;
    this.shift[at + 1] = (o[1] + o[3] * edge - r[4 * member + 1] - r[4 * member + 3] * edge) * k;
  }
}
