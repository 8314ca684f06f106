/** How an item is named across stages and groupings, and which item a name means now. */

import { groupKey, insideRow } from "../model/hierarchy";
import { INSIDE } from "../model/inside";
import type { ItemName } from "./api";
import { nodeOfId, type Shown } from "./shown";
import { tablesOf } from "./tables";

export function nameOf(s: Shown, item: number): ItemName {
  const { h, stage } = s;
  if (item >= h.nodes) {
    // The unfolded inside of a node is that node still.
    const node = insideRow(h, item - h.nodes);
    return node >= 0 ? { node: stage.graph.id[node] } : { key: groupKey(h, item - h.nodes) };
  }
  const r = stage.row[item];
  return { node: r < 0 ? r : stage.graph.id[r] };
}

const keyMaps = new WeakMap<object, Map<number, number>>();

export async function itemsOf(s: Shown, names: readonly ItemName[]): Promise<number[]> {
  const out: number[] = [];
  for (const name of names) out.push("key" in name ? groupOf(s, name.key) : await nodeOf(s, name.node));
  return out;
}

function groupOf(s: Shown, key: number): number {
  const { h } = s;
  let map = keyMaps.get(h);
  if (!map) {
    map = new Map();
    for (let g = 1; g < h.groups; g++) map.set(groupKey(h, g), h.nodes + g);
    keyMaps.set(h, map);
  }
  return map.get(key) ?? -1;
}

/** The item of a node that is alive in this stage, or of its unfolded inside; undefined where it is neither. */
export function itemOfId(s: Shown, id: number): number | undefined {
  const node = nodeOfId(s.stage).get(id);
  if (node !== undefined) return node;
  const inside = groupOf(s, INSIDE + id);
  return inside >= 0 ? inside : undefined;
}

/** A node by id; one that is not alive in this stage is followed through the rewrites, forth and then back. */
async function nodeOf(s: Shown, id: number): Promise<number> {
  const { stage } = s;
  if (id < 0) {
    for (let n = stage.count - 1; n >= 0 && stage.row[n] < 0; n--) if (stage.row[n] === id) return n;
    return -1;
  }
  const direct = itemOfId(s, id);
  if (direct !== undefined) return direct;
  const map = nodeOfId(stage);
  const tables = tablesOf(s.recording, s.graph.index);
  const table = await tables.table("rewrites");
  if (!table) return -1;
  for (const [from, to] of [
    ["before", "after"],
    ["after", "before"],
  ] as const) {
    const seen = new Set([id]);
    let front = [id];
    const far = table.list(to);
    while (front.length > 0) {
      const next: number[] = [];
      for (const at of front) {
        for (const row of await tables.rows("rewrites", from, at)) {
          for (let i = far.offsets[row]; i < far.offsets[row + 1]; i++) {
            const other = far.values[i];
            if (seen.has(other)) continue;
            const found = map.get(other);
            if (found !== undefined) return found;
            seen.add(other);
            next.push(other);
          }
        }
      }
      front = next;
    }
  }
  return -1;
}
