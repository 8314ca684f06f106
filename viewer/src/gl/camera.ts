/** Where the drawing stands on the screen: an offset and a scale, in CSS pixels. */

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

export const MIN_SCALE = 0.002;
export const MAX_SCALE = 6;

/** screen = world · scale + (x, y). Immutable: a view change is a new camera, which makes undo plain. */
export class Camera {
  constructor(
    readonly x = 0,
    readonly y = 0,
    readonly scale = 1,
  ) {}

  pan(dx: number, dy: number): Camera {
    return new Camera(this.x + dx, this.y + dy, this.scale);
  }

  /** The world point under (sx, sy) stays there. */
  zoom(factor: number, sx: number, sy: number): Camera {
    const scale = Math.min(MAX_SCALE, Math.max(MIN_SCALE, this.scale * factor));
    const k = scale / this.scale;
    return new Camera(sx - (sx - this.x) * k, sy - (sy - this.y) * k, scale);
  }

  worldX(sx: number): number {
    return (sx - this.x) / this.scale;
  }

  worldY(sy: number): number {
    return (sy - this.y) / this.scale;
  }

  /** Shows all of a rectangle inside a viewport, never larger than `most`. */
  static fit(r: Rect, width: number, height: number, margin = 24, most = 1): Camera {
    const sx = (width - 2 * margin) / Math.max(1, r.w);
    const sy = (height - 2 * margin) / Math.max(1, r.h);
    const scale = Math.min(MAX_SCALE, Math.max(MIN_SCALE, Math.min(sx, sy, most)));
    return new Camera((width - r.w * scale) / 2 - r.x * scale, (height - r.h * scale) / 2 - r.y * scale, scale);
  }

  static between(a: Camera, b: Camera, t: number): Camera {
    // Scales are compared by ratio, so that a flight neither rushes nor crawls.
    const scale = a.scale * (b.scale / a.scale) ** t;
    const k = Math.abs(b.scale - a.scale) < 1e-9 ? t : (scale - a.scale) / (b.scale - a.scale);
    return new Camera(a.x + (b.x - a.x) * k, a.y + (b.y - a.y) * k, scale);
  }
}
