/** What the worker tells the page about a drawing: new shapes, changed groups, their members' words. */

import type { Template } from "./template";

/** A drawing as it travels: geometry shared by look-alikes, with the texts on edges and named ports. */
export interface Shape extends Template {
  readonly edgeLabel: Int32Array;
  readonly tagLabel: Int32Array;
}

export const IS_GROUP = 1;
/** A run of identical groups, or shown through one of them. */
export const IS_REPEAT = 2;
export const IS_OPEN = 4;
/** Open, and drawn as the inside of the first of its identical members. */
export const IS_EXEMPLAR = 8;
export const IS_SOURCE = 16;
/** What the stage's pass did to a node (ADDED, REMOVED, CHANGED of model/stage.ts), from this bit on. */
export const CHANGE_SHIFT = 5;
export const CHANGE_BITS = 3;
/** A node that holds a graph and can be unfolded. */
export const HAS_INSIDE = 128;

/** More boxes side by side than this cannot be read: such a group is listed unless somebody insists. */
export const LARGE = 2000;

export interface SceneUpdate {
  /** Everything before is void: another graph, stage, grouping or direction. */
  readonly reset: boolean;
  readonly nodes: number;
  readonly items: number;
  readonly across: boolean;
  readonly shapes: readonly Shape[];
  readonly firstShape: number;
  readonly labels: readonly string[];
  /** Triples: group, shape, first member slot in the arrays below. */
  readonly groups: Int32Array;
  readonly item: Int32Array;
  readonly title: Int32Array;
  readonly sub: Int32Array;
  readonly family: Uint8Array;
  readonly flags: Uint8Array;
  /** Nodes inside, for groups. */
  readonly size: Int32Array;
  /** What a fold change names a group (or a node with an inside) by: the same over all stages of a file. 0 for other nodes. */
  readonly key: Int32Array;
}

export function transferables(u: SceneUpdate): ArrayBuffer[] {
  return [u.groups, u.item, u.title, u.sub, u.family, u.flags, u.size, u.key].map((a) => a.buffer as ArrayBuffer);
}
