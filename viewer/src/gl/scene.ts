/** What the page knows of the drawing: groups with shapes and members, all else stays in the worker. */

import { IS_GROUP, IS_OPEN, type SceneUpdate, type Shape } from "../layout/scene_update";
import type { Rect } from "./camera";

/** Words and marks of the members of the groups that came in one update. */
interface Batch {
  readonly item: Int32Array;
  readonly title: Int32Array;
  readonly sub: Int32Array;
  readonly family: Uint8Array;
  readonly flags: Uint8Array;
  readonly size: Int32Array;
  readonly key: Int32Array;
}

/** One open group: its shape, and its members' slots in a batch. */
export interface GroupView {
  readonly group: number;
  readonly shape: Shape;
  readonly batch: Batch;
  readonly first: number;
  readonly count: number;
}

export interface Place extends Rect {
  readonly item: number;
  readonly view: GroupView;
  readonly index: number;
}

export class Scene {
  labels: string[] = [];
  shapes: Shape[] = [];
  across = false;
  nodes = 0;
  version = 0;
  private readonly groups = new Map<number, GroupView>();
  /** Group and index that hold each item; an item that is not drawn may hold stale entries. */
  private holder = new Int32Array(0);
  private indexIn = new Int32Array(0);

  apply(u: SceneUpdate): void {
    if (u.reset) {
      this.groups.clear();
      this.shapes = [];
      this.holder = new Int32Array(u.items).fill(-1);
      this.indexIn = new Int32Array(u.items);
    }
    this.across = u.across;
    this.nodes = u.nodes;
    for (const t of u.labels) this.labels.push(t);
    u.shapes.forEach((s, i) => (this.shapes[u.firstShape + i] = s));
    const batch: Batch = u;
    for (let i = 0; i < u.groups.length; i += 3) {
      const shape = this.shapes[u.groups[i + 1]];
      const view: GroupView = { group: u.groups[i], shape, batch, first: u.groups[i + 2], count: shape.small.length };
      this.groups.set(view.group, view);
      for (let k = 0; k < view.count; k++) {
        const item = batch.item[view.first + k];
        this.holder[item] = view.group;
        this.indexIn[item] = k;
      }
    }
    this.version++;
  }

  get root(): GroupView | null {
    return this.groups.get(0) ?? null;
  }

  /** The drawing of an open group's inside; null when the item is a node or folded. */
  open(view: GroupView, index: number): GroupView | null {
    const flags = view.batch.flags[view.first + index];
    if ((flags & (IS_GROUP | IS_OPEN)) !== (IS_GROUP | IS_OPEN)) return null;
    return this.groups.get(view.batch.item[view.first + index] - this.nodes) ?? null;
  }

  group(g: number): GroupView | null {
    return this.groups.get(g) ?? null;
  }

  /** Where an item stands in the whole drawing; null when it is not drawn (folded away). */
  place(item: number): Place | null {
    const path: number[] = [];
    for (let at = item; ; ) {
      const g = at >= 0 && at < this.holder.length ? this.holder[at] : -1;
      if (g < 0) return null;
      path.push(at);
      if (g === 0) break;
      at = this.nodes + g;
    }
    let view = this.root;
    let x = 0;
    let y = 0;
    for (let i = path.length - 1; i >= 0; i--) {
      if (!view) return null;
      const index = this.indexIn[path[i]];
      if (index >= view.count || view.batch.item[view.first + index] !== path[i]) return null;
      const r = view.shape.rect;
      x += r[4 * index];
      y += r[4 * index + 1];
      if (i === 0) {
        const w = r[4 * index + 2];
        return w === 0 ? null : { x, y, w, h: r[4 * index + 3], item, view, index };
      }
      view = this.open(view, index);
    }
    return null;
  }

  /** The drawn group with a key; -1 when it is not drawn. */
  itemOfKey(key: number): number {
    if (key === 0) return -1;
    for (const v of this.groups.values()) {
      for (let i = 0; i < v.count; i++) if (v.batch.key[v.first + i] === key) return v.batch.item[v.first + i];
    }
    return -1;
  }

  /** Size of the whole drawing. */
  extent(): Rect {
    const r = this.root;
    return r ? { x: 0, y: 0, w: r.shape.w, h: r.shape.h } : { x: 0, y: 0, w: 1, h: 1 };
  }

  title(view: GroupView, index: number): string {
    return this.labels[view.batch.title[view.first + index]] ?? "";
  }

  sub(view: GroupView, index: number): string {
    return this.labels[view.batch.sub[view.first + index]] ?? "";
  }
}
