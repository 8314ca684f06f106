/** What the members of a run of identical groups ("layer × 12") measure one by one, so that one that differs is seen. */

import { groupTitle } from "../model/labels";
import type { Hierarchy } from "../model/hierarchy";
import { members } from "./copies";
import { byItem, measure, measureNames, type Measured, type Unit } from "./measures";
import type { Shown } from "./shown";

export interface RunFigures {
  readonly name: string;
  readonly title: string;
  readonly unit: Unit;
  readonly additive: boolean;
  readonly mean: number;
  readonly low: number;
  readonly high: number;
  readonly each: readonly { readonly item: number; readonly title: string; readonly value: number }[];
}

/** One entry for each measure whose figures differ among the members, or that was measured at all. */
export async function runFigures(s: Shown, run: number): Promise<RunFigures[]> {
  const out: RunFigures[] = [];
  for (const { name } of await measureNames(s)) {
    if (!/^(time|limit|error|flops|params|bytes)$/.test(name)) continue;
    const m = await measure(s, name);
    const found = m && ofRun(s.h, m, run);
    if (found && found.high > 0) out.push(found);
  }
  return out;
}

function ofRun(h: Hierarchy, m: Measured, run: number): RunFigures | null {
  const value = byItem(h, m);
  const each = members(h, run).map((g) => ({ item: h.nodes + g, title: groupTitle(h, g), value: value[h.nodes + g] }));
  const known = each.map((e) => e.value).filter((v) => !Number.isNaN(v));
  if (known.length === 0) return null;
  return {
    name: m.name,
    title: m.title,
    unit: m.unit,
    additive: m.combine === "sum",
    each,
    mean: known.reduce((a, v) => a + v, 0) / known.length,
    low: Math.min(...known),
    high: Math.max(...known),
  };
}

/** The values of each run's members, for the small bars on its box. */
export function runBars(h: Hierarchy, value: Float64Array, boxes: Int32Array): [number, Float32Array][] {
  const out: [number, Float32Array][] = [];
  for (const item of boxes) {
    if (item < h.nodes || h.repeat[item - h.nodes] === 0) continue;
    out.push([item, Float32Array.from(members(h, item - h.nodes), (g) => value[h.nodes + g] || 0)]);
  }
  return out;
}
