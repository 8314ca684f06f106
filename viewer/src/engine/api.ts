/** Decides what the page can ask of the worker; everything large stays on the worker's side. */

import type { FontTable } from "../layout/measure";
import type { SceneUpdate } from "../layout/scene_update";
import type { Header } from "../model/schema";
import type { PanelApi } from "../query/api";

export interface OpenResult {
  readonly header: Header;
  /** For each graph: nodes rows over all stages and the groupings it has. */
  readonly graphs: readonly GraphSummary[];
}

export interface GraphSummary {
  readonly name: string;
  readonly parent: number;
}

/** How far a drawing is unfolded: a start, then changes by group key (see `groupKey`). */
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
  readonly nodes: number;
  readonly edges: number;
  readonly groups: number;
  readonly boxes: number;
}

/** Edges of drawn groups, as pairs group, edge of its shape. */
export type Strokes = Int32Array;

export interface ItemRef {
  readonly item: number;
  readonly title: string;
  readonly sub: string;
  readonly group: boolean;
}

/** A tensor at an input or output, with the items at its other end. */
export interface TensorRef {
  readonly name: string;
  readonly type: string;
  readonly port: number;
  readonly ends: readonly ItemRef[];
  /** Ends beyond those listed. */
  readonly more: number;
}

/** All that is said about an item; fields that do not apply are empty. */
export interface Description extends ItemRef {
  readonly path: readonly ItemRef[];
  /** The node's id in the compiler; -1 for groups and outputs. */
  readonly id: number;
  readonly name: string;
  readonly op: string;
  readonly kind: string;
  readonly cls: string;
  readonly attrs: readonly (readonly [string, string])[];
  readonly inputs: readonly TensorRef[];
  readonly outputs: readonly TensorRef[];
  readonly file: string;
  readonly line: number;
  readonly pass: string;
  readonly rule: string;
  readonly replaces: readonly number[];
  readonly gradOf: number;
  readonly frames: readonly string[];
  readonly bodies: readonly number[];
  readonly born: number;
  readonly died: number;
  readonly ops: number;
  readonly repeat: number;
  readonly opCounts: readonly (readonly [string, number])[];
  /** Group key for fold changes; 0 for nodes. */
  readonly key: number;
}

export interface OutlineRow extends ItemRef {
  readonly ops: number;
  readonly share: number;
  readonly children: number;
  readonly source: boolean;
  readonly key: number;
}

export interface Totals {
  readonly nodes: number;
  readonly ops: number;
  readonly edges: number;
  readonly groups: number;
  readonly parameters: number;
  readonly parameterBytes: number;
  /** Parameters whose size is symbolic or not printed. */
  readonly unsized: number;
  readonly opCounts: readonly (readonly [string, number])[];
  readonly inputs: readonly ItemRef[];
  readonly outputs: readonly ItemRef[];
  readonly largest: readonly (ItemRef & { readonly bytes: number; readonly type: string })[];
}

export interface SearchArg {
  readonly query: string;
  readonly limit: number;
}

export interface SearchResult {
  readonly hits: readonly ItemRef[];
  readonly total: number;
  readonly nodes: number;
  readonly groups: number;
  /** 1 for every hit and every group that holds one: an overlay's `lit`. */
  readonly lit: Uint8Array;
}

/** A table of the recording as plain rows: kernels, times, rewrites and the like, for panels. */
export type PlainRow = Readonly<Record<string, number | string | boolean | readonly number[] | readonly string[]>>;

export type EngineApi = PanelApi & {
  open: { arg: { bytes: ArrayBuffer; font: FontTable }; result: OpenResult };
  show: { arg: ShowArg; result: ShowResult };
  /** Edges that touch an item, through all borders they cross. */
  strokes: { arg: { item: number }; result: Strokes };
  /** Fold changes that bring an item into view. */
  reveal: { arg: { item: number }; result: readonly (readonly [number, number])[] };
  /** Where the tensor of a named port comes from, as an item that is drawn. */
  portSource: { arg: { group: number; edge: number }; result: number };
  describe: { arg: { item: number }; result: Description };
  /** Members of a group (-1: the whole graph), `from` and `limit` for long lists. */
  outline: { arg: { item: number; from: number; limit: number }; result: { readonly rows: readonly OutlineRow[]; readonly total: number } };
  totals: { arg: null; result: Totals };
  neighbours: { arg: { item: number; forward: boolean }; result: Int32Array };
  /** Overlay `lit` of all that lies up or down the flow. */
  reach: { arg: { item: number; forward: boolean; backward: boolean; steps: number }; result: Uint8Array };
  search: { arg: SearchArg; result: SearchResult };
  /** The item of a node id in the present view; -1 when it is not alive. */
  itemOf: { arg: { id: number }; result: number };
  /** Items of many node ids, -1 where not alive. */
  itemsOf: { arg: { ids: readonly number[] }; result: Int32Array };
  /** Rows of a table of the graph on show; `columns` limits what is sent. Empty when the file has none. */
  rows: { arg: { table: string; columns?: readonly string[]; file?: boolean }; result: readonly PlainRow[] };
  /** One text of a table's `text` column (code, source). */
  text: { arg: { table: string; column: string; row: number; file?: boolean }; result: string };
};
