/** What panels can ask of the worker, beside the drawing itself. */

import type { StageChange } from "./changes";
import type { NodeDetails } from "./details";
import type { Icicle } from "./icicle";
import type { KernelLines } from "./kernel_table";
import type { Signature } from "./likeness";
import type { Matched } from "./matching";
import type { MeasureName, Unit } from "./measures";
import type { MemoryPlan } from "./memory";
import type { OutlineWindow } from "./outline";
import type { RankLanes } from "./ranks";
import type { Repairs } from "./repairs";
import type { StyleResult, StyleRule } from "./rules";
import type { RunFigures } from "./runs";
import type { Hit, SearchResult } from "./search";
import type { Summary } from "./summary";
import type { Direction } from "./trace";

/** An item named so that it is found again in another stage, grouping or session: a node by id, a group by key. */
export type ItemName = { readonly node: number } | { readonly key: number };

export interface ColorData {
  readonly name: string;
  readonly title: string;
  readonly unit: Unit;
  readonly note: string;
  /** By item; NaN where there is nothing. */
  readonly value: Float64Array;
  /** Sums are shares of a whole; maxima and means are not. */
  readonly additive: boolean;
  readonly mean: boolean;
  /** The share of the stage's ops that have a value. */
  readonly known: number;
  readonly labels: readonly (readonly [number, string])[] | null;
  /** Colours given by the file, as pairs item, colour. */
  readonly colors: readonly (readonly [number, string])[] | null;
  /** Smallest, smallest positive and largest value among the boxes that are drawn, and the sum over all. */
  readonly least: number;
  readonly low: number;
  readonly high: number;
  readonly median: number;
  readonly total: number;
  /** Items that stand for several copies (a box in an open "layer × 12"), and for how many; `value` is of all of them. */
  readonly copies: readonly (readonly [number, number])[];
  /** Values of the members of each run of identical groups that is drawn folded. */
  readonly runs: readonly (readonly [number, Float32Array])[];
  /** Why nothing is known at this stage; "" where it is. */
  readonly absent: string;
  /** How the file wants numbers coloured, if it says. */
  readonly scale: ColorScale | null;
}

/** Model Explorer's thresholds (upper bounds) or gradient (stops from 0 to 1). */
export interface ColorScale {
  readonly thresholds: readonly (readonly [number, string])[];
  readonly gradient: readonly (readonly [number, string])[];
}

export type GroupDetails = Summary & {
  readonly item: number;
  readonly key: number;
  readonly path: readonly { readonly item: number; readonly title: string }[];
  readonly file: string;
  readonly line: number;
  readonly attrs: readonly (readonly [string, string])[];
  readonly repeat: number;
  /** Figures of identical groups one by one; empty for all others. */
  readonly each: readonly RunFigures[];
  /** As `in:` finds it; "" for a run of identical groups, which has no path of its own. */
  readonly pathName: string;
  /** The node whose inside the group is; null for all others. */
  readonly inside: NodeDetails | null;
  /** The one op that the module holds, which it is then; null for all others. */
  readonly sole: NodeDetails | null;
};

export type PanelApi = {
  summary: { arg: null; result: Summary };
  node: { arg: { item: number }; result: NodeDetails };
  group: { arg: { item: number }; result: GroupDetails };
  /** A source file that the recording holds; null when it does not. */
  source: { arg: { path: string }; result: string | null };
  find: { arg: { text: string; limit: number }; result: SearchResult };
  hits: { arg: { items: Int32Array; text: string }; result: readonly Hit[] };
  tree: { arg: { open: readonly number[]; from: number; count: number }; result: OutlineWindow };
  /** A window of what a group holds; of identical groups the inside of the first, or each of them. */
  members: { arg: { item: number; each: boolean; from: number; count: number }; result: OutlineWindow };
  /** Opens what hides an item: keys of the groups around it, and its place in the list then. */
  treePlace: { arg: { open: readonly number[]; item: number }; result: { open: readonly number[]; index: number } };
  measures: { arg: null; result: readonly MeasureName[] };
  color: { arg: { name: string }; result: ColorData | null };
  stages: { arg: { graph: number }; result: readonly StageChange[] };
  styles: { arg: { rules: readonly StyleRule[] }; result: StyleResult };
  /** Style rules and other extras that the file holds, by kind. */
  extras: { arg: { kind: string }; result: readonly string[] };
  trace: { arg: { item: number; direction: Direction }; result: { lit: Uint8Array; nodes: number } };
  around: { arg: { item: number; direction: Direction }; result: readonly number[] };
  nameOf: { arg: { item: number }; result: ItemName };
  /** Items by name; -1 where there is none. A node that a pass replaced is followed to what stands for it. */
  itemsNamed: { arg: { names: readonly ItemName[] }; result: readonly number[] };
  /** Every node shown, told so that another pane finds the same ones. */
  signature: { arg: { byId: boolean }; result: Signature };
  /** Which of the nodes shown here (the left) are which of the other pane's, and what differs. */
  matchWith: { arg: { other: Signature }; result: Matched };
  /** Marks of nodes carried on to the groups around them. */
  markItems: { arg: { mark: Uint8Array }; result: Uint8Array };
  /** Key by which `signature` knows an item, and the other way round; "" and -1 where there is none. */
  likeOf: { arg: { item: number; byId: boolean }; result: string };
  itemLike: { arg: { key: string; byId: boolean }; result: number };
  /** Group keys as paths and back, for folding two graphs in step. */
  pathsOf: { arg: { keys: readonly number[] }; result: readonly string[] };
  keysAt: { arg: { paths: readonly string[] }; result: readonly number[] };
  /** All kernels with their figures, the slowest first. */
  kernelLines: { arg: null; result: KernelLines };
  memoryPlan: { arg: null; result: MemoryPlan };
  rankLanes: { arg: null; result: RankLanes };
  /** A sum by module; null for what is no sum or was not measured. */
  icicle: { arg: { name: string }; result: Icicle | null };
  repairs: { arg: null; result: Repairs };
  /** The graph in the stage shown, as JSON. */
  json: { arg: null; result: string };
};
