/** What colouring by a measure needs: values of nodes and groups, their range, colours that the file gives. */

import type { ColorData, ColorScale } from "./api";
import { countsOf } from "../model/counts";
import { drawnValues } from "./copies";
import { byItem, measure, type Measured } from "./measures";
import { runBars } from "./runs";
import type { Shown } from "./shown";

/** The share of a stage's ops that have a value: weights and inputs have no time, and nobody misses it. */
function knownOps({ h }: Shown, { label, value }: Measured): number {
  const { counted } = countsOf(h);
  const { graph, row } = h.stage;
  let ops = 0;
  let known = 0;
  for (let n = 0; n < h.nodes; n++) {
    if (!counted[n] || row[n] < 0 || graph.strings.at(graph.kind[row[n]]) === "source") continue;
    ops++;
    if (label ? label[n] : !Number.isNaN(value[n])) known++;
  }
  return ops > 0 ? known / ops : 1;
}

export async function colorData(s: Shown, name: string): Promise<ColorData | null> {
  const m = await measure(s, name);
  if (!m) return null;
  const single = byItem(s.h, m);
  const { value, copies, boxes } = drawnValues(s.session, m);
  let low = Infinity;
  let high = -Infinity;
  let least = Infinity;
  for (const item of boxes) {
    const v = value[item];
    if (!Number.isFinite(v)) continue;
    if (v < least) least = v;
    if (v > 0 && v < low) low = v;
    if (v > high) high = v;
  }
  const known = Array.from(boxes, (item) => value[item])
    .filter((v) => v > 0)
    .sort((a, b) => a - b);
  const median = known[known.length >> 1] ?? 0;
  const total = m.combine === "sum" ? single[s.h.nodes] || 0 : 0;
  const pairs = (texts: readonly string[] | null): (readonly [number, string])[] | null => {
    if (!texts) return null;
    const out: (readonly [number, string])[] = [];
    texts.forEach((t, n) => out.push([n, t] as const));
    return out;
  };
  return {
    name: m.name,
    title: m.title,
    unit: m.unit,
    note: m.note,
    value,
    additive: m.combine === "sum",
    mean: m.combine === "mean",
    labels: pairs(m.label),
    colors: pairs(m.background),
    low: Number.isFinite(low) ? low : 0,
    high: Number.isFinite(high) ? high : 0,
    least: Number.isFinite(least) ? least : 0,
    total,
    known: knownOps(s, m),
    copies: [...copies],
    runs: m.label ? [] : runBars(s.h, single, boxes),
    absent: m.absent,
    median,
    scale: await scaleOf(s, m.title),
  };
}

/** Thresholds and gradient of a Model Explorer overlay, kept by the reader as a style row. */
async function scaleOf(s: Shown, title: string): Promise<ColorScale | null> {
  const table = await s.recording.table("styles");
  if (!table) return null;
  const kinds = table.ints("kind");
  for (let r = 0; r < table.rows; r++) {
    if (s.recording.strings.at(kinds[r]) !== "node_data") continue;
    let value: unknown;
    try {
      value = JSON.parse(table.textAt("json", r));
    } catch {
      continue;
    }
    if (typeof value !== "object" || value === null) continue;
    const v = value as { name?: unknown; graph?: unknown; thresholds?: unknown; gradient?: unknown };
    if (v.name !== title || (v.graph !== undefined && v.graph !== s.graph.index)) continue;
    return { thresholds: stops(v.thresholds, "value"), gradient: stops(v.gradient, "stop") };
  }
  return null;
}

function stops(list: unknown, at: "value" | "stop"): (readonly [number, string])[] {
  if (!Array.isArray(list)) return [];
  const out: (readonly [number, string])[] = [];
  for (const entry of list as unknown[]) {
    if (typeof entry !== "object" || entry === null) continue;
    const e = entry as Record<string, unknown>;
    if (typeof e[at] === "number" && typeof e.bgColor === "string") out.push([e[at], e.bgColor]);
  }
  return out.sort((a, b) => a[0] - b[0]);
}
