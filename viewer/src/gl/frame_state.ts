/** What a frame depends on beside scene and camera: selection, overlays, motion. */

import type { Tween } from "./tween";

/** What panels lay over the drawing: arrays by item, 0 or empty where there is nothing to say. */
export interface Overlay {
  readonly fill?: Uint32Array;
  readonly border?: Uint32Array;
  readonly text?: Uint32Array;
  /** Colour of unfolded groups, where a rule asks for one. */
  readonly sheet?: Uint32Array;
  /** A figure at the right of the box or header ("412 µs"). */
  readonly figure?: (item: number) => string;
  /** Values of the members of a run of identical groups, drawn as small bars on its box. */
  readonly bars?: (item: number) => Float32Array | null;
  /** Share of the whole, 0..1, drawn as a bar. */
  readonly share?: Float32Array;
  /** 1 added, 2 removed, 3 changed. */
  readonly mark?: Uint8Array;
  /** When given, items with 0 recede (search, trace). */
  readonly lit?: Uint8Array;
}

export interface FrameState {
  readonly selected: number; // item, or -1
  readonly hover: number;
  /** Edges that come forward: group -> edges of its shape. */
  readonly strokes: ReadonlyMap<number, ReadonlySet<number>> | null;
  readonly overlay: Overlay | null;
  readonly tween: Tween | null;
  /** Edges that are not part of the drawing, from an item to a named port, while one points at either. */
  readonly links: readonly Link[];
  /** Further lines for boxes with room for them; asked of items as they come into view. */
  readonly facts?: (item: number) => readonly string[];
  /** Short texts on edges: what was decided there. */
  readonly notes?: readonly Note[];
}

export interface Note {
  readonly group: number;
  readonly edge: number;
  readonly text: string;
}

export interface Link {
  readonly from: number; // item
  readonly group: number;
  readonly edge: number; // of the group's shape, one with a named port
}
