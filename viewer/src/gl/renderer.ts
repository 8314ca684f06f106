/** What a renderer is: something that puts a draw list on a canvas. */

import type { Rgba } from "../base/color";
import type { DrawList } from "./draw_list";

export interface Renderer {
  readonly kind: "webgl2" | "canvas2d";
  /** CSS size and device pixels per CSS pixel. */
  resize(width: number, height: number, ratio: number): void;
  draw(list: DrawList, background: Rgba): void;
  /** Whether what was drawn can be trusted; asked once, after the first picture. */
  sound(): boolean;
  dispose(): void;
}
