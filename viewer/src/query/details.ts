/** What is told about one node: everything that the recording knows, from its source line to its values. */

import { shortType } from "../base/format";
import type { Table } from "../model/table";
import { insideRow } from "../model/hierarchy";
import { bodyOf } from "../model/inside";
import { groupTitle, nodeSubtitle, nodeTitle, portName, tensorType } from "../model/labels";
import { coldInts, coldList } from "./cold";
import { measure, measureNames, totalOf, type Measured } from "./measures";
import { idOf, nodeOfId, type Shown } from "./shown";
import { tablesOf } from "./tables";

export interface Link {
  readonly item: number;
  readonly title: string;
  readonly type: string;
  /** Name of the operand or of the tensor, where the file has one. */
  readonly label: string;
}

export interface Step {
  readonly pass: string;
  readonly rule: string;
  readonly why: string;
  readonly stage: number;
  readonly before: readonly NodeRef[];
  readonly after: readonly NodeRef[];
}

/** A node of any stage: where it is alive, it can be gone to. */
export interface NodeRef {
  readonly id: number;
  readonly title: string;
  readonly item: number; // -1 when it is not in the stage shown
  readonly stage: number; // a stage in which it is alive
}

export interface Reject {
  readonly pass: string;
  readonly rule: string;
  readonly why: string;
  readonly stage: number;
  readonly numbers: readonly (readonly [string, string])[];
  readonly others: readonly NodeRef[];
}

export interface KernelFacts {
  readonly id: number;
  /** What a person calls it: "layer.8 intermediate.dense + gelu"; "" in files that do not say. */
  readonly title: string;
  readonly name: string;
  readonly target: string;
  readonly variant: string;
  readonly language: string;
  readonly code: string;
  readonly codeCut: boolean;
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly flops: number;
  readonly limit: number;
  readonly runs: number;
  readonly file: string;
  readonly ops: readonly NodeRef[];
  readonly candidates: readonly {
    readonly variant: string;
    readonly seconds: number;
    readonly chosen: boolean;
    readonly why: string;
  }[];
}

export interface NodeDetails {
  readonly item: number;
  readonly id: number;
  readonly title: string;
  readonly op: string;
  readonly name: string;
  readonly kind: string;
  readonly path: readonly { readonly item: number; readonly title: string }[];
  readonly inputs: readonly Link[];
  readonly outputs: readonly {
    readonly type: string;
    readonly name: string;
    readonly users: readonly Link[];
    readonly more: number;
  }[];
  readonly attrs: readonly (readonly [string, string])[];
  readonly file: string;
  readonly line: number;
  readonly frames: readonly string[];
  readonly pass: string;
  readonly rule: string;
  readonly gradOf: NodeRef | null;
  readonly bodies: readonly { readonly graph: number; readonly name: string }[];
  /** Whether its inside can stand in its place, and whether it does. */
  readonly unfolds: boolean;
  readonly unfolded: boolean;
  readonly made: readonly Step[];
  readonly became: readonly Step[];
  readonly rejects: readonly Reject[];
  readonly kernels: readonly KernelFacts[];
  readonly times: readonly { readonly run: string; readonly seconds: number; readonly spread: number }[];
  readonly errors: readonly {
    readonly stage: number;
    readonly port: number;
    readonly maxAbs: number;
    readonly maxRel: number;
    readonly own: number;
    readonly inherited: number;
    readonly tolerance: number;
  }[];
  readonly values: readonly {
    readonly port: number;
    readonly facts: readonly (readonly [string, number])[];
    readonly sample: string;
    readonly histogram: readonly number[];
  }[];
  readonly data: readonly (readonly [string, string])[];
  readonly flops: number;
  readonly share: number;
}

/** Longer values are cut here and say so; the JSON export has all of it. */
const LONGEST = 20000;
const MOST_LINKS = 30;
/** How many rewrites back or forth are told. */
const MOST_STEPS = 12;

export class Details {
  constructor(private readonly s: Shown) {}

  private ref(id: number): NodeRef {
    const { graph, stage, h } = this.s;
    const item = nodeOfId(stage).get(id) ?? -1;
    if (item >= 0) return { id, title: nodeTitle(h, item), item, stage: stage.stage };
    let row = -1;
    for (let r = 0; r < graph.rows; r++) if (graph.id[r] === id) row = r;
    if (row < 0) return { id, title: `%${id}`, item, stage: -1 };
    const op = graph.strings.head(graph.op[row], 60);
    const name = graph.strings.head(graph.name[row], 60);
    const last = graph.info.stages.length - 1;
    return { id, title: op || name || `%${id}`, item, stage: graph.died[row] < 0 ? last : graph.died[row] - 1 };
  }

  /** A node, or the unfolded inside of one: then what the node is, with what is drawn of it as its neighbours. */
  async node(item: number): Promise<NodeDetails> {
    const { s } = this;
    const { h, graph, stage } = s;
    const within = item >= h.nodes;
    const r = within ? insideRow(h, item - h.nodes) : stage.row[item];
    const id = within ? graph.id[r] : idOf(stage, item);
    const text = (i: number): string => graph.strings.head(i, LONGEST);
    const cold = (c: string): string => (r < 0 ? "" : text(coldInts(graph, c)[r]));
    const list = (c: string): number[] => {
      if (r < 0) return [];
      const { offsets, values } = coldList(graph, c);
      return Array.from(values.subarray(offsets[r], offsets[r + 1]));
    };
    const keys = list("attr_keys");
    const values = list("attr_values");
    const grad = r < 0 ? -1 : coldInts(graph, "grad_of", -1)[r];
    const path: { item: number; title: string }[] = [];
    for (let p = h.parent[item]; p > h.nodes; p = h.parent[p])
      path.push({ item: p, title: groupTitle(h, p - h.nodes) });
    const kernels = await this.kernels(id);
    const time = (await measureNames(s)).some((m) => m.name === "time") ? await measure(s, "time") : null;
    const total = time ? totalOf(s, time) : 0;
    const flops = await measure(s, "flops");
    const figure = (m: Measured): number => (within ? (m.inside.get(item - h.nodes) ?? NaN) : m.value[item]);
    return {
      item,
      id,
      title: within ? groupTitle(h, item - h.nodes) : nodeTitle(h, item),
      op: r < 0 ? "output" : text(graph.op[r]),
      name: r < 0 ? "" : text(graph.name[r]),
      kind: r < 0 ? "source" : text(graph.kind[r]),
      path: path.reverse(),
      inputs: within ? this.operands(r) : this.inputs(item),
      outputs: within ? [] : this.outputs(item),
      attrs: keys.map((k, i) => [text(k), text(values[i])] as const),
      file: cold("file"),
      line: r < 0 ? 0 : coldInts(graph, "line")[r],
      frames: list("frames").map(text),
      pass: cold("pass_name"),
      rule: cold("rule"),
      gradOf: grad >= 0 ? this.ref(grad) : null,
      bodies: list("bodies")
        .filter((g) => g >= 0 && g < s.recording.header.graphs.length)
        .map((g) => ({ graph: g, name: s.recording.header.graphs[g].name })),
      unfolds: within || bodyOf(graph, r) >= 0,
      unfolded: within,
      made: await this.steps(id, "after"),
      became: await this.steps(id, "before"),
      rejects: await this.rejects(id),
      kernels,
      times: await this.times(id, kernels),
      errors: await this.errors(id),
      values: await this.values(id),
      data: await this.data(id),
      flops: flops && r >= 0 ? figure(flops) : NaN,
      share: time && total > 0 ? figure(time) / total : NaN,
    };
  }

  /** What an unfolded node reads, by its own row. */
  private operands(r: number): Link[] {
    const { h, stage, graph } = this.s;
    const out: Link[] = [];
    for (let i = graph.inputs.offsets[r]; i < graph.inputs.offsets[r + 1] && out.length < 200; i++) {
      const item = nodeOfId(stage).get(graph.inputs.values[i]) ?? -1;
      if (item >= 0) out.push({ item, title: portName(h, item), type: nodeSubtitle(h, item), label: "" });
    }
    return out;
  }

  private inputs(item: number): Link[] {
    const { h, stage, graph } = this.s;
    const r = stage.row[item];
    const names = r < 0 ? null : coldList(graph, "input_names");
    const out: Link[] = [];
    const from = stage.inputs.offsets[item];
    for (let i = from; i < stage.inputs.offsets[item + 1] && out.length < 200; i++) {
      const src = stage.inputs.values[i];
      const k = names ? names.offsets[r] + (i - from) : 0;
      const label = names && k < names.offsets[r + 1] ? graph.strings.head(names.values[k], 80) : "";
      if (src < 0) {
        const id = r < 0 ? -1 : graph.inputs.values[graph.inputs.offsets[r] + (i - from)];
        out.push({ item: -1, title: `%${id} (not in the file)`, type: "", label });
      } else out.push({ item: src, title: portName(h, src), type: tensorType(h, stage.inputTensor[i], src), label });
    }
    return out;
  }

  private outputs(item: number): NodeDetails["outputs"] {
    const { h, stage, graph } = this.s;
    const r = stage.row[item];
    if (r < 0) return [];
    const names = coldList(graph, "output_names");
    const count = stage.tensorStart[item + 1] - stage.tensorStart[item];
    const out: { type: string; name: string; users: Link[]; more: number }[] = [];
    for (let port = 0; port < count; port++) {
      const k = graph.outputs.offsets[r] + port;
      const t = k < graph.outputs.offsets[r + 1] ? shortType(graph.strings.head(graph.outputs.values[k], 300)) : "";
      const n = names.offsets[r] + port;
      out.push({
        type: t,
        name: n < names.offsets[r + 1] ? graph.strings.head(names.values[n], 120) : "",
        users: [],
        more: 0,
      });
    }
    const seen = new Set<number>();
    for (let i = stage.users.offsets[item]; i < stage.users.offsets[item + 1]; i++) {
      const user = stage.users.values[i];
      if (seen.has(user)) continue;
      seen.add(user);
      for (let e = stage.inputs.offsets[user]; e < stage.inputs.offsets[user + 1]; e++) {
        if (stage.inputs.values[e] !== item) continue;
        const port = out[stage.inputTensor[e] - stage.tensorStart[item]];
        if (!port) continue;
        if (port.users.length >= MOST_LINKS) port.more++;
        else port.users.push({ item: user, title: nodeTitle(h, user), type: "", label: "" });
        break;
      }
    }
    return out;
  }

  /** Rewrites that led to a node (or away from it), the nearest first, followed through what they replaced. */
  private async steps(id: number, column: "before" | "after"): Promise<Step[]> {
    if (id < 0) return [];
    const tables = tablesOf(this.s.recording, this.s.graph.index);
    const table = await tables.table("rewrites");
    if (!table) return [];
    const out: Step[] = [];
    const seenRow = new Set<number>();
    let front = [id];
    while (front.length > 0 && out.length < MOST_STEPS) {
      const next: number[] = [];
      for (const at of front) {
        for (const row of await tables.rows("rewrites", column, at)) {
          if (seenRow.has(row) || out.length >= MOST_STEPS) continue;
          seenRow.add(row);
          out.push(this.step(table, row));
          const far = table.list(column === "after" ? "before" : "after");
          for (let i = far.offsets[row]; i < far.offsets[row + 1]; i++)
            if (far.values[i] !== at) next.push(far.values[i]);
        }
      }
      front = next;
    }
    return out;
  }

  private step(table: Table, row: number): Step {
    const strings = this.s.recording.strings;
    const ids = (column: string): NodeRef[] => {
      const { offsets, values } = table.list(column);
      return Array.from(values.subarray(offsets[row], Math.min(offsets[row + 1], offsets[row] + MOST_LINKS)), (i) =>
        this.ref(i),
      );
    };
    return {
      pass: strings.at(table.ints("pass_name")[row]),
      rule: strings.at(table.ints("rule")[row]),
      why: strings.head(table.ints("why")[row], 2000),
      stage: table.ints("stage")[row],
      before: ids("before"),
      after: ids("after"),
    };
  }

  /** Decisions not to act that name a node. */
  async rejects(id: number): Promise<Reject[]> {
    const tables = tablesOf(this.s.recording, this.s.graph.index);
    const table = await tables.table("rejects");
    if (!table || id < 0) return [];
    const strings = this.s.recording.strings;
    const nodes = table.list("nodes");
    const out: Reject[] = [];
    for (const row of (await tables.rows("rejects", "nodes", id)).slice(0, 40)) {
      const others: NodeRef[] = [];
      for (let i = nodes.offsets[row]; i < nodes.offsets[row + 1]; i++)
        if (nodes.values[i] !== id) others.push(this.ref(nodes.values[i]));
      out.push({
        pass: strings.at(table.ints("pass_name")[row]),
        rule: strings.at(table.ints("rule")[row]),
        why: strings.head(table.ints("why")[row], 2000),
        stage: table.ints("stage")[row],
        numbers: numbersOf(strings.head(table.ints("numbers")[row], 5000)),
        others,
      });
    }
    return out;
  }

  private async kernels(id: number): Promise<KernelFacts[]> {
    const tables = tablesOf(this.s.recording, this.s.graph.index);
    const table = await tables.table("kernels");
    if (!table || id < 0) return [];
    const rows = new Set([...(await tables.rows("kernels", "node", id)), ...(await tables.rows("kernels", "ops", id))]);
    const strings = this.s.recording.strings;
    const candidates = await tables.table("candidates");
    const out: KernelFacts[] = [];
    for (const row of [...rows].slice(0, 8)) {
      const kernel = table.ints("id")[row];
      const code = table.textAt("code", row);
      const ops = table.list("ops");
      const at = (c: string): string => strings.head(table.ints(c)[row], 2000);
      const tried = candidates ? await tables.rows("candidates", "kernel", kernel) : [];
      out.push({
        id: kernel,
        name: at("name"),
        title: table.has("title") ? at("title") : "",
        target: at("target"),
        variant: at("variant"),
        language: table.has("language") ? at("language") : "c++",
        code: code.slice(0, 400000),
        codeCut: code.length > 400000,
        bytesRead: table.floats("bytes_read")[row],
        bytesWritten: table.floats("bytes_written")[row],
        flops: table.floats("flops")[row],
        limit: table.floats("limit_seconds")[row],
        runs: table.ints("runs", 1)[row],
        file: at("file"),
        ops: Array.from(
          ops.values.subarray(ops.offsets[row], Math.min(ops.offsets[row + 1], ops.offsets[row] + 60)),
          (i) => this.ref(i),
        ),
        candidates: candidates
          ? tried.map((c) => ({
              variant: strings.at(candidates.ints("variant")[c]),
              seconds: candidates.floats("seconds")[c],
              chosen: candidates.ints("chosen")[c] === 1,
              why: strings.head(candidates.ints("why")[c], 500),
            }))
          : [],
      });
    }
    return out;
  }

  private async times(id: number, kernels: readonly KernelFacts[]): Promise<NodeDetails["times"]> {
    const tables = tablesOf(this.s.recording, this.s.graph.index);
    const table = await tables.table("times");
    if (!table || id < 0) return [];
    const rows = new Set(await tables.rows("times", "node", id));
    for (const k of kernels) for (const r of await tables.rows("times", "kernel", k.id)) rows.add(r);
    return [...rows].slice(0, 20).map((r) => ({
      run: this.s.recording.strings.at(table.ints("run")[r]),
      seconds: table.floats("seconds")[r],
      spread: table.floats("spread")[r],
    }));
  }

  private async errors(id: number): Promise<NodeDetails["errors"]> {
    const tables = tablesOf(this.s.recording, this.s.graph.index);
    const table = await tables.table("errors");
    if (!table || id < 0) return [];
    return (await tables.rows("errors", "node", id)).slice(0, 20).map((r) => ({
      stage: table.ints("stage")[r],
      port: table.ints("port")[r],
      maxAbs: table.floats("max_abs")[r],
      maxRel: table.floats("max_rel")[r],
      own: table.floats("own")[r],
      inherited: table.floats("inherited")[r],
      tolerance: table.floats("tolerance")[r],
    }));
  }

  private async values(id: number): Promise<NodeDetails["values"]> {
    const tables = tablesOf(this.s.recording, this.s.graph.index);
    const table = await tables.table("summaries");
    if (!table || id < 0) return [];
    return (await tables.rows("summaries", "node", id)).slice(0, 8).map((r) => ({
      port: table.ints("port")[r],
      facts: (["minimum", "maximum", "mean", "std", "nans", "infs", "zeros"] as const).map(
        (c) => [c, table.floats(c)[r]] as const,
      ),
      sample: table.textAt("sample", r).slice(0, 4000),
      histogram: table.has("histogram")
        ? Array.from(
            table
              .list("histogram")
              .values.subarray(table.list("histogram").offsets[r], table.list("histogram").offsets[r + 1]),
          )
        : [],
    }));
  }

  private async data(id: number): Promise<(readonly [string, string])[]> {
    const tables = tablesOf(this.s.recording, this.s.graph.index);
    const table = await tables.table("data");
    if (!table || id < 0) return [];
    const strings = this.s.recording.strings;
    return (await tables.rows("data", "node", id)).slice(0, 60).map((r) => {
      const label = strings.head(table.ints("label")[r], 500);
      return [strings.head(table.ints("name")[r], 80), label || String(table.floats("number", NaN)[r])] as const;
    });
  }
}

function numbersOf(json: string): (readonly [string, string])[] {
  if (!json) return [];
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === "object" && value !== null)
      return Object.entries(value)
        .slice(0, 20)
        .map(([k, v]) => [k, typeof v === "string" ? v : JSON.stringify(v)] as const);
  } catch {
    // Free text is shown as it stands.
  }
  return [["", json.slice(0, 300)]];
}
