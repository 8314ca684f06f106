/** Pictures of a drawing: SVG, or PNG as large as a browser can hold. */

import { CanvasRenderer } from "./canvas2d";
import type { DrawList } from "./draw_list";
import type { Rgba } from "../base/color";
import { svgOf } from "./svg";

/** Marks in one piece, and the size that they were drawn for. */
export interface Picture {
  readonly list: DrawList;
  readonly width: number;
  readonly height: number;
  readonly paper: Rgba;
}

export const toSvg = ({ list, width, height, paper }: Picture): string => svgOf(list, width, height, paper);

/** Scaled down where a browser could not hold the picture (16,384 pixels a side, 64 million in all). */
export async function toPng({ list, width, height, paper }: Picture, ratio: number): Promise<Blob> {
  const scale = Math.min(ratio, 16384 / width, 16384 / height, Math.sqrt(64e6 / (width * height)));
  const canvas = document.createElement("canvas");
  const renderer = new CanvasRenderer(canvas);
  renderer.resize(width, height, scale);
  renderer.draw(list, paper);
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      (b) =>
        b ? resolve(b) : reject(new Error("The picture is too large for this browser; export the view instead.")),
      "image/png",
    ),
  );
}
