/** What can be measured of a node: time, error, bytes, FLOPs, parameters and any data that the file gives. */

import { typeSize } from "../base/format";
import { countsOf, withinInside } from "../model/counts";
import { isModelInput } from "../model/labels";
import type { Graph } from "../model/graph";
import { insideRow, type Hierarchy } from "../model/hierarchy";
import { flopsOf, Shapes } from "./flops";
import { REMOVED } from "../model/stage";
import { nodeOfId, type NodeOfId, type Shown } from "./shown";
import { tablesOf } from "./tables";

export type Unit = "seconds" | "bytes" | "count" | "share" | "number";
/** How the figure of a group comes from those of its nodes. */
export type Combine = "sum" | "max" | "mean";

/** By node, NaN where there is no value; and by group, of nodes that are drawn unfolded. */
interface Figures {
  readonly value: Float64Array;
  readonly inside: ReadonlyMap<number, number>;
}

export interface Measured {
  readonly name: string;
  readonly title: string;
  readonly unit: Unit;
  readonly combine: Combine;
  /** What each figure counts for in a mean. */
  readonly weight: Figures | null;
  /** By node; NaN where there is no value. */
  readonly value: Float64Array;
  /** By group, of nodes that are drawn unfolded: figures of the whole, not of the ops inside. */
  readonly inside: ReadonlyMap<number, number>;
  /** Texts instead of numbers, by node; null when the values are numbers. */
  readonly label: readonly string[] | null;
  /** Colours that the file gives, by node; null when it gives none. */
  readonly background: readonly string[] | null;
  /** What a reader should know about how the figure came to be. */
  readonly note: string;
  /** Why nothing is known at this stage, though the file has figures for another; "" where it is known. */
  readonly absent: string;
}

export const ELSEWHERE = "not measured at this stage";

export interface MeasureName {
  readonly name: string;
  readonly title: string;
}

const cache = new WeakMap<Hierarchy, Map<string, Promise<Measured | null>>>();

/** What this file can be coloured by, in order of interest. */
export async function measureNames(s: Shown): Promise<MeasureName[]> {
  const t = tablesOf(s.recording, s.graph.index);
  const out: MeasureName[] = [];
  const times = await t.table("times");
  if (times && times.rows > 0) {
    const runs = [...new Set(times.ints("run"))].map((r) => s.recording.strings.at(r));
    out.push({ name: "time", title: "Time" });
    if (runs.length > 1) for (const r of runs) out.push({ name: `time:${r}`, title: `Time, ${r || "first run"}` });
    const limits = (await t.table("kernels"))?.floats("limit_seconds");
    if (limits?.some((v) => v > 0)) out.push({ name: "limit", title: "Share of limit" });
  }
  const errors = await t.table("errors");
  if (errors && errors.rows > 0)
    out.push({ name: "error", title: "Error of its own" }, { name: "inherited", title: "Inherited error" });
  out.push(
    { name: "bytes", title: "Bytes written" },
    { name: "flops", title: "FLOPs" },
    { name: "params", title: "Parameters" },
  );
  const data = await t.table("data");
  if (data)
    for (const n of new Set(data.ints("name")))
      out.push({ name: `data:${s.recording.strings.at(n)}`, title: s.recording.strings.head(n, 60) });
  return out;
}

export function measure(s: Shown, name: string): Promise<Measured | null> {
  let known = cache.get(s.h);
  if (!known) cache.set(s.h, (known = new Map()));
  let found = known.get(name);
  if (!found) known.set(name, (found = compute(s, name).then((m) => m && withoutRemoved(s.h, m))));
  return found;
}

/** What the stage's pass removed is drawn to be seen; its figures are not the stage's. */
function withoutRemoved(h: Hierarchy, m: Measured): Measured {
  if (h.stage.diff) for (let n = 0; n < h.nodes; n++) if (h.stage.change[n] === REMOVED) m.value[n] = NaN;
  return m;
}

async function compute(s: Shown, name: string): Promise<Measured | null> {
  if (name === "time" || name.startsWith("time:")) return times(s, name);
  if (name === "limit") return shareOfLimit(s);
  if (name === "error" || name === "inherited") return errors(s, name);
  if (name === "bytes") return bytesWritten(s.h);
  if (name === "flops") return flops(s);
  if (name === "params") return make(name, "Parameters", "count", "sum", parameters(s.h), "");
  if (name.startsWith("data:")) return data(s, name.slice(5));
  // In a query "heat>3" means the data called heat, however it is written.
  const names = await measureNames(s);
  const hit = names.find((m) => m.name.toLowerCase() === `data:${name}` || m.title.toLowerCase() === name);
  return hit && hit.name !== name ? measure(s, hit.name) : null;
}

const NOTHING: ReadonlyMap<number, number> = new Map();

function make(
  name: string,
  title: string,
  unit: Unit,
  combine: Combine,
  value: Float64Array,
  note: string,
  inside = NOTHING,
): Measured {
  return { name, title, unit, combine, weight: null, value, inside, label: null, background: null, note, absent: "" };
}

/** Collects figures that tables give by node id; those of an unfolded node belong to its group. */
class ById {
  readonly value: Float64Array;
  readonly inside = new Map<number, number>();
  private readonly nodes: NodeOfId;
  private readonly groups = new Map<number, number>();

  constructor(s: Shown, empty = NaN) {
    this.value = new Float64Array(s.h.nodes).fill(empty);
    this.nodes = nodeOfId(s.stage);
    for (let g = 1; s.graph.groups.inside && g < s.h.groups; g++) {
      const row = insideRow(s.h, g);
      if (row >= 0) this.groups.set(s.graph.id[row], g);
    }
  }

  /** Combines a figure with what a node has so far (NaN at first); false when the node is not in this stage. */
  put(id: number, combine: (before: number) => number): boolean {
    const n = this.nodes.get(id);
    if (n !== undefined) this.value[n] = combine(this.value[n]);
    const g = n === undefined ? this.groups.get(id) : undefined;
    if (g !== undefined) this.inside.set(g, combine(this.inside.get(g) ?? NaN));
    return n !== undefined || g !== undefined;
  }
}

/** The sum over a whole stage. */
export const totalOf = (s: Shown, m: Measured): number => byItem(s.h, m)[s.h.nodes] || 0;

const idSets = new WeakMap<Graph, ReadonlySet<number>>();

/**
 * Whether figures by node are facts of the stage shown: all nodes that have one, and that the graph has
 * at any stage, are here. Otherwise the few that outlived the passes would pass for the whole.
 */
function measuredHere(s: Shown, ids: Iterable<number>): boolean {
  if (s.graph.info.stages.length < 2) return true;
  let all = idSets.get(s.graph);
  if (!all) idSets.set(s.graph, (all = new Set(s.graph.id)));
  const here = nodeOfId(s.stage);
  const unfolded = new Set(countsOf(s.h).unfolded.map((g) => s.graph.id[insideRow(s.h, g)]));
  for (const id of ids) {
    const n = here.get(id);
    const gone = n === undefined ? !unfolded.has(id) : s.stage.change[n] === REMOVED;
    if (gone && all.has(id)) return false;
  }
  return true;
}

const elsewhere = (s: Shown, m: Measured): Measured => ({
  ...m,
  value: new Float64Array(s.h.nodes).fill(NaN),
  inside: NOTHING,
  note: "",
  absent: ELSEWHERE,
});

async function times(s: Shown, name: string): Promise<Measured | null> {
  const t = tablesOf(s.recording, s.graph.index);
  const table = await t.table("times");
  if (!table) return null;
  const kernels = await t.table("kernels");
  const nodeOfKernel = new Map<number, number>();
  if (kernels) {
    const ids = kernels.ints("id");
    const nodes = kernels.ints("node", -1);
    for (let r = 0; r < kernels.rows; r++) nodeOfKernel.set(ids[r], nodes[r]);
  }
  const runs = table.ints("run");
  const wanted = name === "time" ? (runs[0] ?? 0) : [...runs].find((r) => `time:${s.recording.strings.at(r)}` === name);
  const figures = new ById(s);
  const node = table.ints("node", -1);
  const kernel = table.ints("kernel", -1);
  const seconds = table.floats("seconds");
  const measured = new Set<number>();
  for (let r = 0; r < table.rows; r++) {
    // No time is negative or without end: what such a clock says was not measured.
    if (runs[r] !== wanted || !(seconds[r] >= 0 && seconds[r] < Infinity)) continue;
    measured.add(node[r] >= 0 ? node[r] : (nodeOfKernel.get(kernel[r]) ?? -1));
    const more = (before: number): number => (Number.isNaN(before) ? 0 : before) + seconds[r];
    if (!figures.put(node[r], more)) figures.put(nodeOfKernel.get(kernel[r]) ?? -1, more);
  }
  const m = make(name, "Time", "seconds", "sum", figures.value, s.recording.strings.at(wanted ?? 0), figures.inside);
  return measuredHere(s, measured) ? m : elsewhere(s, m);
}

/** How much of a kernel's time the machine would need at its limits; of a group, by the time of its kernels. */
async function shareOfLimit(s: Shown): Promise<Measured | null> {
  const time = await measure(s, "time");
  const kernels = await tablesOf(s.recording, s.graph.index).table("kernels");
  if (!time || !kernels) return null;
  const limits = new ById(s);
  const node = kernels.ints("node", -1);
  const of = kernels.floats("limit_seconds", NaN);
  for (let r = 0; r < kernels.rows; r++) if (of[r] > 0) limits.put(node[r], (before) => (before || 0) + of[r]);
  const ratio = (limit: number, seconds: number): number => (seconds > 0 ? limit / seconds : NaN);
  const known = (seconds: number, limit: number): number => (seconds > 0 && limit > 0 ? seconds : NaN);
  const groups = [...limits.inside].map(([g, v]) => [g, v, time.inside.get(g) ?? NaN] as const);
  const m: Measured = {
    ...make(
      "limit",
      "Share of limit",
      "share",
      "mean",
      limits.value.map((v, n) => ratio(v, time.value[n])),
      "of what the machine could do",
      new Map(groups.map(([g, limit, seconds]) => [g, ratio(limit, seconds)])),
    ),
    weight: {
      value: time.value.map((v, n) => known(v, limits.value[n])),
      inside: new Map(groups.map(([g, limit, seconds]) => [g, known(seconds, limit)])),
    },
  };
  return time.absent ? elsewhere(s, m) : m;
}

async function errors(s: Shown, name: "error" | "inherited"): Promise<Measured | null> {
  const table = await tablesOf(s.recording, s.graph.index).table("errors");
  if (!table) return null;
  const figures = new ById(s);
  const node = table.ints("node");
  const of = table.floats(name === "error" ? "own" : "inherited");
  const stages = table.ints("stage", -1);
  const own = stages.includes(s.stage.stage);
  for (let r = 0; r < table.rows; r++)
    if (!own || stages[r] === s.stage.stage)
      figures.put(node[r], (before) => (Number.isNaN(before) ? of[r] : Math.max(before, of[r])));
  const m = make(
    name,
    name === "error" ? "Error of its own" : "Inherited error",
    "number",
    "max",
    figures.value,
    "against a float64 replay",
    figures.inside,
  );
  return own || measuredHere(s, node) ? m : elsewhere(s, m);
}

async function data(s: Shown, name: string): Promise<Measured | null> {
  const table = await tablesOf(s.recording, s.graph.index).table("data");
  if (!table) return null;
  const { strings } = s.recording;
  const figures = new ById(s);
  const label: string[] = [];
  const background: string[] = [];
  const map = nodeOfId(s.stage);
  const names = table.ints("name");
  const node = table.ints("node");
  const number = table.floats("number", NaN);
  const labels = table.ints("label");
  const backgrounds = table.ints("background");
  let found = false;
  for (let r = 0; r < table.rows; r++) {
    if (strings.at(names[r]) !== name) continue;
    found = true;
    figures.put(node[r], () => number[r]);
    const n = map.get(node[r]);
    if (n === undefined) continue;
    if (labels[r]) label[n] = strings.head(labels[r], 200);
    if (backgrounds[r]) background[n] = strings.head(backgrounds[r], 40);
  }
  if (!found) return null;
  return {
    name: `data:${name}`,
    title: name,
    unit: /\bbytes$/.test(name) ? "bytes" : "number",
    combine: "max",
    weight: null,
    value: figures.value,
    inside: figures.inside,
    label: label.length > 0 ? label : null,
    background: background.length > 0 ? background : null,
    note: "",
    absent: "",
  };
}

function bytesWritten(h: Hierarchy): Measured {
  const { graph, row } = h.stage;
  const value = new Float64Array(h.nodes);
  const size = new Map<number, number>();
  const written = (r: number): number => {
    let sum = 0;
    for (let i = graph.outputs.offsets[r]; i < graph.outputs.offsets[r + 1]; i++) {
      const t = graph.outputs.values[i];
      let b = size.get(t);
      if (b === undefined) size.set(t, (b = Math.max(0, typeSize(graph.strings.head(t, 400)).bytes)));
      sum += b;
    }
    return sum;
  };
  for (let n = 0; n < h.nodes; n++)
    if (row[n] >= 0 && graph.strings.at(graph.kind[row[n]]) !== "source") value[n] = written(row[n]);
  const inside = new Map(countsOf(h).unfolded.map((g) => [g, written(insideRow(h, g))] as const));
  return make("bytes", "Bytes written", "bytes", "sum", value, "sizes of outputs", inside);
}

/** Elements of weights: sources that are no inputs of the model and that no op makes up. */
function parameters(h: Hierarchy): Float64Array {
  const { graph, row } = h.stage;
  const value = new Float64Array(h.nodes);
  for (let n = 0; n < h.nodes; n++)
    if (isParameter(h, n))
      value[n] = Math.max(
        0,
        typeSize(graph.strings.head(graph.outputs.values[graph.outputs.offsets[row[n]]] ?? 0, 400)).elements,
      );
  return value;
}

const WEIGHT = /^(const(ant)?|param(eter)?|var(iable)?|initializer|weight|buffer|get_attr|tensor)$/i;

export function isParameter(h: Hierarchy, node: number): boolean {
  const { graph, row } = h.stage;
  const r = row[node];
  if (r < 0 || graph.inputs.offsets[r] < graph.inputs.offsets[r + 1] || graph.strings.at(graph.kind[r]) !== "source")
    return false;
  if (isModelInput(h, node) && !/param|weight|const|var/i.test(graph.strings.head(graph.op[r], 30))) return false;
  return WEIGHT.test(graph.strings.head(graph.op[r], 30));
}

async function flops(s: Shown): Promise<Measured> {
  const { graph, row } = s.stage;
  const figures = new ById(s, 0);
  const { value } = figures;
  const t = tablesOf(s.recording, graph.index);
  const kernels = await t.table("kernels");
  const map = nodeOfId(s.stage);
  let recorded = false;
  if (kernels && measuredHere(s, kernels.ints("node", -1))) {
    const node = kernels.ints("node", -1);
    const of = kernels.floats("flops");
    const runs = kernels.ints("runs", 1);
    for (let r = 0; r < kernels.rows; r++) {
      if (of[r] > 0 && figures.put(node[r], (before) => (before || 0) + of[r] * runs[r])) recorded = true;
    }
  }
  if (recorded) return make("flops", "FLOPs", "count", "sum", value, "as the compiler counted", figures.inside);
  const shapes = new Shapes(graph);
  const bodies = graph.coldList("bodies");
  const rowOf = (id: number): number => {
    const n = map.get(id);
    return n === undefined ? -1 : row[n];
  };
  for (let n = 0; n < s.h.nodes; n++) {
    const r = row[n];
    if (r < 0) continue;
    if (bodies.offsets[r] < bodies.offsets[r + 1]) {
      for (let i = bodies.offsets[r]; i < bodies.offsets[r + 1]; i++)
        value[n] += await bodyFlops(await s.other(bodies.values[i]));
    } else value[n] = Math.max(0, flopsOf(graph, r, shapes, rowOf));
  }
  return make("flops", "FLOPs", "count", "sum", value, "estimated from shapes");
}

const bodySums = new WeakMap<Graph, number>();

async function bodyFlops(graph: Graph): Promise<number> {
  let sum = bodySums.get(graph);
  if (sum === undefined) {
    sum = 0;
    const shapes = new Shapes(graph);
    const rows = new Map<number, number>();
    for (let r = 0; r < graph.rows; r++) rows.set(graph.id[r], r);
    for (let r = 0; r < graph.rows; r++)
      if (graph.died[r] < 0)
        sum += Math.max(
          0,
          flopsOf(graph, r, shapes, (id) => rows.get(id) ?? -1),
        );
    bodySums.set(graph, sum);
  }
  return sum;
}

// ------------------------------------------------------------------------------------ groups
/** Sums and how many values are known before each place in depth-first order; of counted nodes only, where given. */
function sums(h: Hierarchy, value: Float64Array, counted: Uint8Array | null): { sum: Float64Array; seen: Int32Array } {
  const sum = new Float64Array(h.nodes + 1);
  const seen = new Int32Array(h.nodes + 1);
  for (let p = 0; p < h.nodes; p++) {
    const n = h.order[p];
    const ok = !Number.isNaN(value[n]) && (counted === null || counted[n] === 1);
    sum[p + 1] = sum[p] + (ok ? value[n] : 0);
    seen[p + 1] = seen[p] + (ok ? 1 : 0);
  }
  return { sum, seen };
}

/** A weighted mean as two sums, the second to divide the first by; null for what is none. */
export function asSums(m: Measured): readonly [Measured, Measured] | null {
  const { weight } = m;
  if (!weight) return null;
  const sum = (value: Float64Array, inside: ReadonlyMap<number, number>): Measured => ({
    ...m,
    combine: "sum",
    weight: null,
    value,
    inside,
  });
  const inside = new Map([...m.inside].map(([g, v]) => [g, v * (weight.inside.get(g) ?? NaN)]));
  return [
    sum(
      m.value.map((v, n) => v * weight.value[n]),
      inside,
    ),
    sum(weight.value, weight.inside),
  ];
}

/** Values of nodes and groups in one array by item: sums, maxima or means; NaN where nothing is known. */
export function byItem(h: Hierarchy, m: Measured): Float64Array {
  const mean = asSums(m);
  if (mean) {
    const [above, below] = mean.map((part) => byItem(h, part));
    return above.map((v, i) => v / below[i]);
  }
  const out = new Float64Array(h.nodes + h.groups).fill(NaN);
  out.set(m.value);
  if (m.combine === "sum") {
    const { counted } = countsOf(h);
    const all = sums(h, m.value, null);
    // An unfolded node that has a figure of its own is not the sum of the ops in it.
    const outside = m.inside.size > 0 ? sums(h, m.value, counted) : all;
    for (let g = 0; g < h.groups; g++) {
      const { sum, seen } = outside !== all && !withinInside(h, g) ? outside : all;
      if (seen[h.end[g]] > seen[h.start[g]]) out[h.nodes + g] = sum[h.end[g]] - sum[h.start[g]];
    }
    for (const [g, v] of m.inside) {
      out[h.nodes + g] = v;
      for (let p = h.parent[h.nodes + g]; p >= 0; p = h.parent[p]) out[p] = (out[p] || 0) + v;
    }
    return out;
  }
  for (let n = 0; n < h.nodes; n++) {
    const v = m.value[n];
    if (Number.isNaN(v)) continue;
    for (let p = h.parent[n]; p >= 0 && !(out[p] >= v); p = h.parent[p]) out[p] = v;
  }
  for (const [g, v] of m.inside) for (let p = h.nodes + g; p >= 0 && !(out[p] >= v); p = h.parent[p]) out[p] = v;
  return out;
}
