/** What the parts of a frame share: where they draw, what they show, and from which size on they can be read. */

import { blend, type Rgba } from "../base/color";
import type { Face } from "../layout/measure";
import type { Camera } from "./camera";
import type { DrawList } from "./draw_list";
import type { FrameState } from "./frame_state";
import type { GroupView, Scene } from "./scene";
import type { Theme } from "./theme";

/** Nothing smaller than this is read: texts are written at 11 px or give way. */
export const MIN_PX = 11;
/** Letters grow no further than at this scale: whoever zooms in wants to see more, not larger. */
export const TEXT_SCALE = 1.1;
/** A box lower than this on screen is a block of colour. */
export const BLOCK_H = 14;

/** The width of a text as the renderer will draw it. */
export type TextWidth = (text: string, px: number, face: Face) => number;

/** An open group on its way to the screen: its inside, and where its sheet lies there. */
export interface Visit {
  readonly view: GroupView;
  readonly item: number;
  readonly x: number; // screen
  readonly y: number;
  readonly w: number;
  readonly h: number;
  readonly depth: number;
  readonly alpha: number;
  /** The chosen item or something inside it: what was just opened does not recede. */
  readonly chosen: boolean;
}

/** One member of a group on screen. */
export interface Member {
  readonly parent: Visit;
  readonly index: number;
  readonly item: number;
  readonly flags: number;
  readonly x: number; // screen
  readonly y: number;
  readonly w: number;
  readonly h: number;
  readonly alpha: number;
  readonly selected: boolean;
  readonly hover: boolean;
  readonly borderWidth: number;
}

/** The part of a group's shape that is on screen, by its corners, in the shape's units. */
export interface Clip {
  readonly x0: number;
  readonly y0: number;
  readonly x1: number;
  readonly y1: number;
}

export class Frame {
  /** Boxes and curves looked at so far. */
  visited = 0;
  readonly scale: number;
  /** The scale of letters. */
  readonly textScale: number;
  /** Whether some edges come forward, so that the others recede. */
  readonly dim: boolean;

  constructor(
    readonly list: DrawList,
    readonly scene: Scene,
    readonly camera: Camera,
    readonly width: number,
    readonly height: number,
    readonly theme: Theme,
    readonly state: FrameState,
    readonly textWidth: TextWidth,
  ) {
    this.scale = camera.scale;
    this.textScale = Math.min(TEXT_SCALE, camera.scale);
    this.dim = state.strokes !== null;
  }

  /** Where the screen's edges lie in a group's shape. */
  clip(v: Visit): Clip {
    const s = this.scale;
    return { x0: -v.x / s, y0: -v.y / s, x1: (this.width - v.x) / s, y1: (this.height - v.y) / s };
  }

  /** A sheet takes a rule's colour as a tint: what lies on it must stay readable. */
  sheetColor(item: number, depth: number): Rgba {
    const ruled = this.state.overlay?.sheet?.[item];
    return ruled ? blend(this.theme.sheets[depth], ruled, 0.3) : this.theme.sheets[depth];
  }
}
