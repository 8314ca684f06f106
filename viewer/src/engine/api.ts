/** What the page can ask of the worker; everything large stays on the worker's side. */

import type { FontTable } from "../layout/measure";
import type { SceneUpdate } from "../layout/scene_update";
import type { Header } from "../model/schema";
import type { PanelApi } from "../query/api";
import type { Decision } from "./decisions";

export interface OpenResult {
  readonly header: Header;
  /** For each graph: nodes rows over all stages and the groupings it has. */
  readonly graphs: readonly GraphSummary[];
}

export interface GraphSummary {
  readonly name: string;
  readonly parent: number;
}

/** How far a drawing is unfolded: a start, then changes by group key (see `groupKey`; keys from INSIDE on are nodes with an inside). */
export interface FoldSpec {
  readonly base: "first" | "all" | "none" | "flat";
  /** Pairs: key, state (0 folded, 1 open, 2 open with each of identical members). */
  readonly changes: readonly (readonly [number, number])[];
}

/** What is shown, as plain data: a link, an undo step and a saved view are all one of these. */
export interface ViewSpec {
  readonly graph: number;
  readonly stage: number;
  readonly grouping: string;
  readonly across: boolean;
  readonly fold: FoldSpec;
  /** Marks what the stage's pass added and changed, and keeps what it removed in place. */
  readonly diff?: boolean;
}

export interface ShowArg {
  readonly view: ViewSpec;
  /** The window that a first view must fit. */
  readonly width: number;
  readonly height: number;
}

export interface ShowResult {
  readonly update: SceneUpdate;
  /** The fold state spelled out, so that "first" stays what it was. */
  readonly fold: FoldSpec;
  readonly groupings: readonly string[];
  /** The grouping shown: the one asked for, or the file's first when it has no such. */
  readonly grouping: string;
  /** Without the graph's outputs, which are drawn beside them. */
  readonly nodes: number;
  readonly edges: number;
  readonly groups: number;
  readonly boxes: number;
}

/** Edges of drawn groups, as pairs group, edge of its shape. */
export type Strokes = Int32Array;

export type EngineApi = PanelApi & {
  open: { arg: { bytes: ArrayBuffer; font: FontTable }; result: OpenResult };
  /** Reads, sorts and groups what will be shown first, while the page is still being put together. */
  warm: { arg: { start: Partial<ViewSpec> }; result: void };
  show: { arg: ShowArg; result: ShowResult };
  /** Edges that touch an item, through all borders they cross. */
  strokes: { arg: { item: number }; result: Strokes };
  /** Fold changes that bring an item into view, up to a group that is too large to unfold (-1 when there is none) and its members. */
  reveal: {
    arg: { item: number };
    result: {
      readonly changes: readonly (readonly [number, number])[];
      readonly large: number;
      readonly total: number;
    };
  };
  /** A node with an inside, or the unfolded inside of one, and its counterparts in identical groups: their keys. */
  insides: { arg: { item: number }; result: readonly number[] };
  /** Decisions not to act on edges of an item. */
  decisions: { arg: { item: number }; result: readonly Decision[] };
  /** What items say when there is room for more than name and type, line by line. */
  facts: { arg: { items: Int32Array }; result: readonly (readonly string[])[] };
  /** Where the tensor of a named port comes from, as an item that is drawn. */
  portSource: { arg: { group: number; edge: number }; result: number };
};
