/** What a walk finds: everything upstream or downstream, and the boxes on screen that one step leads to. */

import type { Hierarchy } from "../model/hierarchy";
import { FOLDED, type LayoutSession } from "../layout/session";
import { firstTwin } from "../layout/problem";

export type Direction = "up" | "down";

/** Nodes of an item: itself, or all that a group holds. */
export function nodesOf(h: Hierarchy, item: number): Int32Array {
  return item < h.nodes ? Int32Array.of(item) : h.order.slice(h.start[item - h.nodes], h.end[item - h.nodes]);
}

/** Flags by item: all that the item needs (up) or that needs it (down), itself included; and how many nodes that is beside its own. */
export function trace(h: Hierarchy, item: number, direction: Direction): { lit: Uint8Array; nodes: number } {
  const lit = new Uint8Array(h.nodes + h.groups);
  const { offsets, values } = direction === "up" ? h.stage.inputs : h.stage.users;
  const todo = Array.from(nodesOf(h, item));
  for (const n of todo) lit[n] = 1;
  let nodes = 0;
  while (todo.length > 0) {
    const n = todo.pop() as number;
    for (let i = offsets[n]; i < offsets[n + 1]; i++) {
      const m = values[i];
      if (m >= 0 && !lit[m]) {
        lit[m] = 1;
        if (m < h.stage.nodes) nodes++;
        todo.push(m);
      }
    }
  }
  lightGroups(h, lit);
  return { lit, nodes };
}

/** A group is lit when anything in it is. */
export function lightGroups(h: Hierarchy, lit: Uint8Array): void {
  const sum = new Int32Array(h.nodes + 1);
  for (let p = 0; p < h.nodes; p++) sum[p + 1] = sum[p] + (lit[h.order[p]] ? 1 : 0);
  for (let g = 0; g < h.groups; g++) if (sum[h.end[g]] > sum[h.start[g]]) lit[h.nodes + g] = 1;
}

/** The box that stands for an item on screen: itself, or the folded group (or the first of identical ones) around it. */
export function visibleBox(session: LayoutSession, item: number): number {
  const { h } = session;
  if (session.flat) return item;
  let shown = item;
  for (let child = item, p = h.parent[item]; p >= 0; child = p, p = h.parent[p]) {
    const g = p - h.nodes;
    const above = h.parent[p] - h.nodes;
    // The first of identical groups is drawn inside its run, without a sheet of its own.
    if (above >= 0 && session.isExemplar(above) && firstTwin(h, above) === g) continue;
    if (g > 0 && session.fold[g] === FOLDED) shown = p;
    else if (session.isExemplar(g) && child !== h.nodes + firstTwin(h, g)) shown = p;
  }
  return shown;
}

/** Boxes on screen that one step along the edges leads to. */
export function neighbours(session: LayoutSession, item: number, direction: Direction): number[] {
  const { h } = session;
  const { offsets, values } = direction === "up" ? h.stage.inputs : h.stage.users;
  const from = item < h.nodes ? h.pos[item] : h.start[item - h.nodes];
  const to = item < h.nodes ? from + 1 : h.end[item - h.nodes];
  const out = new Set<number>();
  for (let p = from; p < to && out.size < 64; p++) {
    const n = h.order[p];
    for (let i = offsets[n]; i < offsets[n + 1]; i++) {
      const m = values[i];
      if (m < 0 || (h.pos[m] >= from && h.pos[m] < to)) continue;
      const box = visibleBox(session, m);
      if (box !== item) out.add(box);
    }
  }
  return [...out];
}
