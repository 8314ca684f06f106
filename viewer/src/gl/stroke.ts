/** The shape of an edge on screen: lines, S-curves and U-turns between the points of its path. */

import type { Rgba } from "../base/color";
import type { DrawList } from "./draw_list";

/** Ends that lie less far apart than this across the flow are joined by a straight line. */
export const STRAIGHT = 0.6;

/** A pen for one frame; `across` when the flow runs to the right instead of down. */
export class Pen {
  constructor(
    private readonly list: DrawList,
    private readonly width: number,
    private readonly height: number,
    private readonly across: boolean,
  ) {}

  stretch(x0: number, y0: number, x1: number, y1: number, bend: number, width: number, color: Rgba): void {
    if (Math.max(x0, x1) < -200 || Math.min(x0, x1) > this.width + 200) return;
    if (Math.max(y0, y1) < -200 || Math.min(y0, y1) > this.height + 200) return;
    const { list, across } = this;
    if (bend !== 0) {
      this.turn(x0, y0, x1, y1, bend, width, color);
      return;
    }
    const side = across ? Math.abs(y1 - y0) : Math.abs(x1 - x0);
    if (side < STRAIGHT || side + Math.abs(across ? x1 - x0 : y1 - y0) < 7) {
      list.line(x0, y0, x1, y1, width, width, color);
      return;
    }
    if (across) {
      const m = (x0 + x1) / 2;
      list.curve(x0, y0, m, y0, m, y1, x1, y1, width, width, color);
    } else {
      const m = (y0 + y1) / 2;
      list.curve(x0, y0, x0, m, x1, m, x1, y1, width, width, color);
    }
  }

  /** A U-turn: two quarter circles with a straight stretch between, so that wide ones have round corners too. */
  private turn(x0: number, y0: number, x1: number, y1: number, bend: number, width: number, color: Rgba): void {
    const { list, across } = this;
    const run = across ? y1 - y0 : x1 - x0;
    const r = Math.min(Math.abs(bend), Math.abs(run) / 2);
    const k = 0.55 * r;
    const a = Math.sign(run) * r;
    const d = Math.sign(bend);
    const e = Math.sign(run);
    // In terms of (along the turn, across it), swapped back when the flow runs right.
    const far =
      bend > 0
        ? Math.max(across ? x0 : y0, across ? x1 : y1) + bend
        : Math.min(across ? x0 : y0, across ? x1 : y1) + bend;
    const line = (p: number, q: number, r2: number, s2: number): void => {
      if (across) list.line(q, p, s2, r2, width, width, color);
      else list.line(p, q, r2, s2, width, width, color);
    };
    const arc = (
      p: number,
      q: number,
      p1: number,
      q1: number,
      p2: number,
      q2: number,
      r2: number,
      s2: number,
    ): void => {
      if (across) list.curve(q, p, q1, p1, q2, p2, s2, r2, width, width, color);
      else list.curve(p, q, p1, q1, p2, q2, r2, s2, width, width, color);
    };
    const [p0, q0, p1, q1] = across ? [y0, x0, y1, x1] : [x0, y0, x1, y1];
    line(p0, q0, p0, far - d * r);
    arc(p0, far - d * r, p0, far - d * (r - k), p0 + a - e * k, far, p0 + a, far);
    line(p0 + a, far, p1 - a, far);
    arc(p1 - a, far, p1 - a + e * k, far, p1, far - d * (r - k), p1, far - d * r);
    line(p1, far - d * r, p1, q1);
  }
}
