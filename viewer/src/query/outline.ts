/** What the outline lists: the tree of groups and nodes, flattened as far as it is opened, a window at a time. */

import { shownMembers } from "../layout/problem";
import { countIn } from "../model/counts";
import { groupKey, type Hierarchy } from "../model/hierarchy";
import { groupSubtitle, groupTitle, nodeSubtitle, nodeTitle } from "../model/labels";
import { FAMILIES } from "../layout/family";

export interface OutlineRow {
  readonly item: number;
  readonly key: number; // 0 for nodes
  readonly depth: number;
  readonly title: string;
  readonly sub: string;
  /** The name that the file gives a node; "" for groups. */
  readonly name: string;
  readonly family: string;
  /** Ops inside, for groups. */
  readonly ops: number;
  readonly open: boolean;
}

export interface OutlineWindow {
  readonly total: number;
  readonly from: number;
  readonly rows: readonly OutlineRow[];
}

export class Outline {
  private h: Hierarchy | null = null;
  private opened = "";
  private items = new Int32Array(0);
  private depths = new Uint8Array(0);
  private isOpen = new Set<number>();

  window(h: Hierarchy, open: readonly number[], from: number, count: number): OutlineWindow {
    const opened = open.join();
    if (this.h !== h || this.opened !== opened) {
      this.h = h;
      this.opened = opened;
      this.flatten(h, new Set(open));
    }
    const rows: OutlineRow[] = [];
    const first = Math.max(0, Math.min(from, this.items.length));
    const last = Math.min(this.items.length, first + count);
    for (let i = first; i < last; i++) rows.push(this.row(h, this.items[i], this.depths[i]));
    return { total: this.items.length, from: first, rows };
  }

  /** What one group holds, as a list of its own. */
  members(h: Hierarchy, group: number, each: boolean, from: number, count: number): OutlineWindow {
    const items = shownMembers(h, group, h.repeat[group] > 0 && !each);
    const first = Math.max(0, Math.min(from, items.length));
    const rows = Array.from(items.subarray(first, Math.min(items.length, first + count)), (item) =>
      this.row(h, item, 0),
    );
    return { total: items.length, from: first, rows };
  }

  /** Where an item stands in the list; -1 when a closed group hides it. */
  indexOf(item: number): number {
    return this.items.indexOf(item);
  }

  private flatten(h: Hierarchy, open: ReadonlySet<number>): void {
    const isOpen = new Set<number>();
    for (let g = 1; g < h.groups; g++) if (open.has(groupKey(h, g))) isOpen.add(h.nodes + g);
    this.isOpen = isOpen;
    const items: number[] = [];
    const depths: number[] = [];
    const todo: number[] = [];
    const depth: number[] = [];
    const push = (g: number, d: number): void => {
      for (let i = h.members.offsets[g + 1] - 1; i >= h.members.offsets[g]; i--) {
        todo.push(h.members.values[i]);
        depth.push(d);
      }
    };
    push(0, 0);
    while (todo.length > 0) {
      const item = todo.pop() as number;
      const d = depth.pop() as number;
      items.push(item);
      depths.push(Math.min(255, d));
      if (item >= h.nodes && isOpen.has(item)) push(item - h.nodes, d + 1);
    }
    this.items = Int32Array.from(items);
    this.depths = Uint8Array.from(depths);
  }

  private row(h: Hierarchy, item: number, depth: number): OutlineRow {
    if (item < h.nodes) {
      const r = h.stage.row[item];
      const { strings, kind } = h.stage.graph;
      const family = r < 0 ? "source" : strings.at(kind[r]);
      return {
        item,
        key: 0,
        depth,
        title: nodeTitle(h, item),
        sub: nodeSubtitle(h, item),
        name: r < 0 ? "" : strings.head(h.stage.graph.name[r], 120),
        family: (FAMILIES as readonly string[]).includes(family) ? family : "other",
        ops: 1,
        open: false,
      };
    }
    const g = item - h.nodes;
    return {
      item,
      key: groupKey(h, g),
      depth,
      title: groupTitle(h, g),
      sub: groupSubtitle(h, g),
      name: "",
      family: "mixed",
      ops: countIn(h, g, "ops"),
      open: this.isOpen.has(item),
    };
  }
}

/** Keys of the groups around an item, outermost first. */
export function keysAround(h: Hierarchy, item: number): number[] {
  const out: number[] = [];
  for (let p = h.parent[item]; p > h.nodes; p = h.parent[p]) out.push(groupKey(h, p - h.nodes));
  return out.reverse();
}
