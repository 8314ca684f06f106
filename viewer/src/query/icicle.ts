/** Time (or another sum) by module as an icicle: each row of bars splits the row above it. */

import { groupTitle, nodeTitle } from "../model/labels";
import { byItem, measure, type Unit } from "./measures";
import { idAt, kernelTitles } from "./summary";
import type { Shown } from "./shown";

export interface IcicleBar {
  readonly item: number;
  readonly title: string;
  readonly depth: number;
  /** Share of the whole: where the bar begins, and how wide it is. */
  readonly at: number;
  readonly share: number;
  readonly value: number;
}

export interface Icicle {
  readonly title: string;
  readonly unit: Unit;
  readonly total: number;
  readonly bars: readonly IcicleBar[];
  readonly note: string;
}

/** Bars narrower than this cannot be seen or hit. */
const LEAST = 1 / 2000;
const DEEPEST = 12;

export async function icicle(s: Shown, name: string): Promise<Icicle | null> {
  const m = await measure(s, name);
  if (m?.combine !== "sum") return null;
  const { h } = s;
  const value = byItem(h, m);
  const total = value[h.nodes] || 0;
  const bars: IcicleBar[] = [];
  const titles = await kernelTitles(s);
  const todo: { item: number; depth: number; at: number }[] = total > 0 ? [{ item: h.nodes, depth: 0, at: 0 }] : [];
  while (todo.length > 0) {
    const { item, depth, at } = todo.pop() as { item: number; depth: number; at: number };
    const g = item - h.nodes;
    const title = item < h.nodes ? titles.get(idAt(s, item)) || nodeTitle(h, item) : groupTitle(h, g);
    bars.push({ item, title, depth, at, share: value[item] / total, value: value[item] });
    if (g < 0 || depth >= DEEPEST) continue;
    const members = [...h.members.values.subarray(h.members.offsets[g], h.members.offsets[g + 1])].filter(
      (i) => value[i] / total >= LEAST,
    );
    // Layers keep their order; where order tells nothing, the largest stands first.
    if (h.repeat[g] === 0) members.sort((a, b) => value[b] - value[a]);
    let x = at;
    for (const i of members) {
      todo.push({ item: i, depth: depth + 1, at: x });
      x += value[i] / total;
    }
  }
  return { title: m.title, unit: m.unit, total, bars, note: m.absent };
}
