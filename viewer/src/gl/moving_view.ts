/** A view whose camera can be moved: by hand, to fit what is drawn, or in flight to a place. */

import { NAMES, READABLE } from "../layout/style";
import { Camera, type Rect } from "./camera";
import { Scene } from "./scene";

/** Whether the reader asked for no motion. */
export const still = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

export abstract class MovingView {
  readonly scene = new Scene();
  camera = new Camera();
  /** Room that panels cover, so that "fit" uses what is free. */
  insets = { left: 0, right: 0, top: 0, bottom: 0 };
  protected selected = -1;
  private flight: { from: Camera; to: Camera; start: number; ms: number } | null = null;
  /** Cameras that showed all of a drawing; one that is panned or zoomed is another camera. */
  private readonly fits = new WeakSet<Camera>();

  abstract get size(): { width: number; height: number };
  abstract redraw(): void;

  /** The part of the window that no panel covers. */
  protected free(): Rect {
    const { left, right, top, bottom } = this.insets;
    const { width, height } = this.size;
    return { x: left, y: top, w: Math.max(50, width - left - right), h: Math.max(50, height - top - bottom) };
  }

  /** Whether all of the drawing was brought into the window and nobody has moved it since. */
  get fitted(): boolean {
    return this.fits.has(this.flight?.to ?? this.camera);
  }

  fit(animated = true): void {
    const free = this.free();
    const c = Camera.fit(this.scene.extent(), free.w, free.h, 24, 1.25);
    this.goFitted(new Camera(c.x + free.x, c.y + free.y, c.scale), animated);
  }

  private goFitted(to: Camera, animated: boolean): void {
    this.fits.add(to);
    this.go(to, animated);
  }

  /** Moves no more than needed to show an item that was opened; what is larger than the window is made to fit. */
  bringIn(item: number, animated = true): void {
    const p = this.scene.place(item);
    if (!p) return;
    const free = this.free();
    const now = this.flight?.to ?? this.camera;
    const margin = 16;
    const scale = Math.min(now.scale, (free.w - 2 * margin) / p.w, (free.h - 2 * margin) / p.h);
    const shift = (at: number, size: number, from: number, room: number): number => {
      const low = from + margin;
      const high = from + room - margin - size;
      return Math.min(Math.max(at, low), Math.max(low, high)) - at;
    };
    const k = scale / now.scale;
    // Scaled around the item's corner, then moved by what is still missing.
    const x = now.x + p.x * now.scale;
    const y = now.y + p.y * now.scale;
    const dx = shift(x, p.w * scale, free.x, free.w);
    const dy = shift(y, p.h * scale, free.y, free.h);
    if (k === 1 && dx === 0 && dy === 0) return;
    this.go(new Camera(x + dx - p.x * scale, y + dy - p.y * scale, scale), animated);
  }

  /** As `fit`, but in a small window rather cut off than too small to read, as long as little is cut off. */
  fitReadable(): void {
    const free = this.free();
    const { w, h } = this.scene.extent();
    const scale = Math.min(free.w / (w + 48), free.h / (h + 48));
    if (scale >= NAMES || scale * 3 < READABLE) {
      this.fit(false);
      return;
    }
    const c = new Camera(free.x + (free.w - w * READABLE) / 2, free.y + 24, READABLE);
    this.goFitted(w * READABLE > free.w ? new Camera(free.x + 24, c.y, READABLE) : c, false);
  }

  /** Brings a rectangle of the drawing into the free part of the window. */
  frame(r: Rect, animated = true, most = 1): void {
    const free = this.free();
    const c = Camera.fit(r, free.w, free.h, 24, most);
    this.go(new Camera(c.x + free.x, c.y + free.y, c.scale), animated);
  }

  /** Brings an item to the middle at a readable scale, as far as that leaves no room empty that the drawing could fill. */
  flyTo(item: number, animated = true): boolean {
    const p = this.scene.place(item);
    if (!p) return false;
    const free = this.free();
    const scale = Math.min(
      Math.max(this.camera.scale, 0.92),
      Math.max(0.2, Math.min((free.w - 60) / p.w, (free.h - 60) / p.h, 1.2)),
    );
    const all = this.scene.extent();
    const along = (from: number, room: number, middle: number, size: number): number => {
      if (size * scale + 48 <= room) return from + (room - size * scale) / 2;
      return Math.min(from + 24, Math.max(from + room - 24 - size * scale, from + room / 2 - middle * scale));
    };
    const x = along(free.x, free.w, p.x + p.w / 2, all.w);
    const y = along(free.y, free.h, p.y + p.h / 2, all.h);
    this.go(new Camera(x, y, scale), animated);
    return true;
  }

  go(to: Camera, animated: boolean): void {
    if (animated && !still()) this.fly(to, 200);
    else this.move(to);
  }

  /** At once, as a hand moves it. */
  move(to: Camera): void {
    this.flight = null;
    this.camera = to;
    this.redraw();
  }

  protected fly(to: Camera, ms: number): void {
    this.flight = { from: this.camera, to, start: performance.now(), ms };
    this.redraw();
  }

  /** Ends a flight where it leads to. */
  protected land(): void {
    if (this.flight) this.camera = this.flight.to;
    this.flight = null;
  }

  /** Takes the camera to where it is at a time; true while it flies on. */
  protected advance(now: number): boolean {
    if (!this.flight) return false;
    const p = Math.min(1, Math.max(0, (now - this.flight.start) / this.flight.ms));
    if (p >= 1) {
      this.land();
      return false;
    }
    this.camera = Camera.between(this.flight.from, this.flight.to, 1 - (1 - p) ** 3);
    return true;
  }

  /** Zooms around what is selected while that is in view, else around the middle of the window. */
  zoomBy(factor: number): void {
    const free = this.free();
    const { x, y, scale } = this.camera;
    const p = this.selected >= 0 ? this.scene.place(this.selected) : null;
    const at = p && [x + (p.x + p.w / 2) * scale, y + (p.y + p.h / 2) * scale];
    const inside = at && at[0] > free.x && at[0] < free.x + free.w && at[1] > free.y && at[1] < free.y + free.h;
    const [cx, cy] = inside ? at : [free.x + free.w / 2, free.y + free.h / 2];
    this.move(this.camera.zoom(factor, cx, cy));
  }
}
