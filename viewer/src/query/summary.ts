/** What is said of a whole model or of a group: totals, op counts, parameters, FLOPs, time, largest tensors. */

import { shortType, typeSize } from "../base/format";
import { groupClass, groupTitle, nodeTitle, portName, shortOp } from "../model/labels";
import { countIn, countsOf, withinInside } from "../model/counts";
import { insideRow } from "../model/hierarchy";
import { byItem, measure, type Measured, measureNames } from "./measures";
import { idOf, type Shown } from "./shown";
import { tablesOf } from "./tables";

export interface OpCount {
  readonly op: string;
  readonly kind: string;
  readonly count: number;
}

export interface TensorFact {
  readonly item: number;
  readonly name: string;
  readonly type: string;
  readonly bytes: number;
  readonly weight: boolean;
  /** Tensors alike: same op, same type. */
  readonly count: number;
}

export interface Summary {
  readonly title: string;
  readonly cls: string;
  readonly nodes: number;
  readonly ops: number;
  readonly edges: number;
  /** Operands of the whole graph whose producer the file does not have. */
  readonly broken: number;
  readonly groups: number;
  readonly params: number;
  readonly paramBytes: number;
  readonly flops: number;
  readonly flopsNote: string;
  readonly bytes: number;
  /** NaN when nothing was measured. */
  readonly time: number;
  /** Why there is no time, where the file has times for another stage. */
  readonly timeNote: string;
  readonly error: number;
  readonly opCounts: readonly OpCount[];
  readonly tensors: readonly TensorFact[];
  readonly withSource: number;
  readonly slowest: readonly { readonly item: number; readonly title: string; readonly seconds: number }[];
}

const MOST_TENSORS = 8;

/** Of whole models, which are asked for after every change of view: nothing in them depends on what is unfolded. */
const known = new WeakMap<Shown["h"], Summary>();

/** Called between pieces of work. What is shared between calls is never half made there: another call may want it. */
export type Pause = () => Promise<void>;

/** `group` 0 is the whole model. In a million nodes totals take a second and those of a group 0.2 s: they give way to whoever asks meanwhile. */
export async function summarize(s: Shown, group: number, pause: Pause): Promise<Summary> {
  if (group !== 0) return compute(s, group, pause);
  const found = known.get(s.h) ?? (await compute(s, group, pause));
  known.set(s.h, found);
  return found;
}

async function compute(s: Shown, group: number, pause: Pause): Promise<Summary> {
  const { h, graph } = s;
  const from = h.start[group];
  const to = h.end[group];
  const item = h.nodes + group;
  const ops = new Map<number, number>();
  const lines = graph.coldInts("line");
  const isSource = new Map<number, boolean>();
  const size = new Map<number, { bytes: number }>();
  let withSource = 0;
  let paramBytes = 0;
  let groups = 0;
  let least = 0;
  const tensors = new Map<number, { node: number; text: number; bytes: number; weight: boolean; count: number }>();
  const { counted, unfolded } = countsOf(h);
  await pause();
  const params = await measure(s, "params");
  await pause();
  const within = withinInside(h, group);
  for (let p = from; p < to; p++) {
    const n = h.order[p];
    const r = h.stage.row[n];
    if (r < 0 || !(counted[n] || within)) continue;
    if (lines[r] > 0) withSource++;
    let source = isSource.get(graph.kind[r]);
    if (source === undefined) isSource.set(graph.kind[r], (source = graph.strings.at(graph.kind[r]) === "source"));
    if (!source) ops.set(graph.op[r], (ops.get(graph.op[r]) ?? 0) + 1);
    for (let i = graph.outputs.offsets[r]; i < graph.outputs.offsets[r + 1]; i++) {
      const text = graph.outputs.values[i];
      let b = size.get(text);
      if (!b) size.set(text, (b = typeSize(graph.strings.head(text, 400))));
      const weight = (params?.value[n] ?? 0) > 0;
      if (weight) paramBytes += Math.max(0, b.bytes);
      if (b.bytes <= 0 || b.bytes < least) continue;
      // Twelve layers have twelve tensors alike: one line tells of all. Weights go by their own name.
      const key = weight ? -1 - n : graph.op[r] * graph.strings.count + text;
      const same = tensors.get(key);
      if (same) same.count++;
      else {
        tensors.set(key, { node: n, text, bytes: b.bytes, weight, count: 1 });
        if (tensors.size > 4 * MOST_TENSORS) least = prune(tensors);
      }
    }
  }
  if (!within)
    for (const g of unfolded)
      if (h.start[g] >= from && h.end[g] <= to) {
        const r = insideRow(h, g);
        ops.set(graph.op[r], (ops.get(graph.op[r]) ?? 0) + 1);
        if (lines[r] > 0) withSource++;
      }
  prune(tensors);
  for (let g = 1; g < h.groups; g++)
    if (h.start[g] >= from && h.end[g] <= to && g !== group && insideRow(h, g) < 0 && countIn(h, g, "nodes") > 0)
      groups++;
  await pause();
  const flops = await measure(s, "flops");
  await pause();
  const bytes = await measure(s, "bytes");
  await pause();
  const names = await measureNames(s);
  const time = names.some((m) => m.name === "time") ? await measure(s, "time") : null;
  const error = names.some((m) => m.name === "error") ? await measure(s, "error") : null;
  await pause();
  const kinds = opKinds(s);
  const titles = await kernelTitles(s);
  const slowest: { item: number; title: string; seconds: number }[] = [];
  if (time) {
    for (let p = from; p < to; p++)
      if (time.value[h.order[p]] > 0) slowest.push({ item: h.order[p], title: "", seconds: time.value[h.order[p]] });
    for (const [g, v] of time.inside)
      if (v > 0 && h.start[g] >= from && h.end[g] <= to) slowest.push({ item: h.nodes + g, title: "", seconds: v });
    slowest.sort((a, b) => b.seconds - a.seconds);
    slowest.length = Math.min(slowest.length, 8);
  }
  const figure = async (m: Measured | null): Promise<number> => {
    if (!m) return NaN;
    await pause();
    return byItem(h, m)[item];
  };
  return {
    title: groupTitle(h, group),
    cls: groupClass(h, group),
    nodes: countIn(h, group, "nodes"),
    ops: countIn(h, group, "ops"),
    edges: countIn(h, group, "edges"),
    broken: group === 0 ? countsOf(h).broken : 0,
    groups,
    params: (await figure(params)) || 0,
    paramBytes,
    flops: await figure(flops),
    flopsNote: flops?.note ?? "",
    bytes: await figure(bytes),
    time: await figure(time),
    timeNote: time?.absent ?? "",
    error: await figure(error),
    opCounts: [...ops]
      .map(([op, count]) => ({ op: graph.strings.head(op, 80), kind: kinds.get(op) ?? "", count }))
      .sort((a, b) => b.count - a.count || (a.op < b.op ? -1 : 1)),
    tensors: [...tensors.values()].map((t) => ({
      item: t.node,
      name: portName(h, t.node),
      type: shortType(graph.strings.head(t.text, 200)),
      bytes: t.bytes,
      weight: t.weight,
      count: t.count,
    })),
    withSource,
    slowest: slowest.map((x) => ({
      ...x,
      title:
        titles.get(idAt(s, x.item)) ||
        (x.item < h.nodes ? shortOp(nodeTitle(h, x.item)) : groupTitle(h, x.item - h.nodes)),
    })),
  };
}

/** The id of a node, or of the node whose inside a group is. */
export const idAt = (s: Shown, item: number): number =>
  item < s.h.nodes ? idOf(s.stage, item) : s.graph.id[insideRow(s.h, item - s.h.nodes)];

/** What kernels are called, by the node that each computes. */
export async function kernelTitles(s: Shown): Promise<ReadonlyMap<number, string>> {
  const out = new Map<number, string>();
  const table = await tablesOf(s.recording, s.graph.index).table("kernels");
  if (!table?.has("title")) return out;
  const nodes = table.ints("node", -1);
  const texts = table.ints("title");
  for (let r = 0; r < table.rows; r++) out.set(nodes[r], s.recording.strings.head(texts[r], 200));
  return out;
}

function opKinds(s: Shown): Map<number, string> {
  const out = new Map<number, string>();
  for (let r = 0; r < s.graph.rows; r++)
    if (!out.has(s.graph.op[r])) out.set(s.graph.op[r], s.graph.strings.at(s.graph.kind[r]));
  return out;
}

/** Keeps the largest few, in order; returns the size below which nothing more can matter. */
function prune<T extends { readonly node: number; readonly bytes: number }>(tensors: Map<number, T>): number {
  const order = [...tensors].sort(([, x], [, y]) => y.bytes - x.bytes || x.node - y.node).slice(0, MOST_TENSORS);
  tensors.clear();
  for (const [k, t] of order) tensors.set(k, t);
  return order.length < MOST_TENSORS ? 0 : order[order.length - 1][1].bytes;
}
