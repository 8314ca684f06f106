/** The order of a frame: sheets from the outside in, then what lies over all of them. */

import type { Camera } from "./camera";
import { drawEdges } from "./draw_edges";
import { Headers } from "./draw_headers";
import { drawLink, drawNote } from "./draw_callouts";
import { drawMembers } from "./draw_members";
import type { DrawList } from "./draw_list";
import { Frame, type TextWidth, type Visit } from "./frame_context";
import type { FrameState } from "./frame_state";
import type { Scene } from "./scene";
import { Pen } from "./stroke";
import type { Theme } from "./theme";

export class FrameBuilder {
  /** Boxes and curves looked at in the last frame; tests hold it to what is visible. */
  visited = 0;

  constructor(readonly textWidth: TextWidth = (text, px) => text.length * px * 0.6) {}

  build(
    list: DrawList,
    scene: Scene,
    camera: Camera,
    width: number,
    height: number,
    theme: Theme,
    state: FrameState,
  ): void {
    list.clear();
    this.visited = 0;
    const root = scene.root;
    if (!root) return;
    const frame = new Frame(list, scene, camera, width, height, theme, state, this.textWidth);
    const pen = new Pen(list, width, height, scene.across);
    const s = camera.scale;
    const size = state.tween ? state.tween.sizeOf(root) : root.shape;
    let level: Visit[] = [
      {
        view: root,
        item: -1,
        x: camera.x,
        y: camera.y,
        w: size.w * s,
        h: size.h * s,
        depth: 0,
        alpha: 1,
        chosen: false,
      },
    ];
    const sheets: Visit[] = [];
    while (level.length > 0) {
      const next: Visit[] = [];
      for (const v of level) drawEdges(frame, pen, v);
      for (const v of level) drawMembers(frame, v, next);
      for (const v of next) sheets.push(v);
      level = next;
    }
    // One layer for the whole drawing: sheets come before what lies on them, and no edge crosses a box,
    // so all strokes can go on top. A handful of draws a frame, however deep the nesting.
    list.layer();
    for (const l of state.links) drawLink(frame, l);
    const headers = new Headers(frame);
    for (const v of sheets) headers.draw(v);
    for (const n of state.notes ?? []) drawNote(frame, n);
    list.layer();
    this.visited = frame.visited;
  }
}
