/** How tests make recordings: tables from plain rows, packed as the Python writer packs them. */

import { deflateRawSync } from "node:zlib";
import { GRAPH_TABLES, type ColumnSpec } from "../../src/model/schema";

export type Cell = number | string | boolean | readonly number[] | readonly string[];
export type Row = Readonly<Record<string, Cell>>;

export interface NodeSpec {
  readonly id?: number;
  readonly name?: string;
  readonly op: string;
  readonly kind?: string;
  readonly inputs?: readonly (number | readonly [number, number])[];
  readonly outputs?: readonly string[];
  readonly path?: string; // "encoder/layer/0"
  readonly born?: number;
  readonly died?: number;
  readonly replaces?: readonly number[];
  readonly bodies?: readonly number[];
}

export interface GraphSpec {
  readonly nodes: readonly NodeSpec[];
  readonly stages?: readonly string[];
  readonly inputs?: readonly number[];
  readonly outputs?: readonly (readonly [number, number])[];
  readonly classes?: Readonly<Record<string, string>>;
  /** Graphs nested in this one: graph 1, 2 ... of the file. */
  readonly bodies?: readonly GraphSpec[];
}

class StringTable {
  readonly list: string[] = [""];
  private readonly ids = new Map<string, number>([["", 0]]);

  id(text: string): number {
    let i = this.ids.get(text);
    if (i === undefined) this.ids.set(text, (i = this.list.push(text) - 1));
    return i;
  }
}

const stagesOf = (graph: GraphSpec): readonly string[] => graph.stages ?? ["graph"];

function addGraph(graph: GraphSpec, prefix: string, members: Map<string, Uint8Array>, strings: StringTable): void {
  const groups: Row[] = [];
  const byPath = new Map<string, number>();
  const group = (path: string): number => {
    if (!path) return -1;
    const known = byPath.get(path);
    if (known !== undefined) return known;
    const cut = path.lastIndexOf("/");
    const parent = group(cut < 0 ? "" : path.slice(0, cut));
    groups.push({ grouping: "module", parent, name: path.slice(cut + 1), cls: graph.classes?.[path] ?? "" });
    byPath.set(path, groups.length - 1);
    return groups.length - 1;
  };
  const stages = stagesOf(graph);
  const rows: Row[][] = stages.map(() => []);
  graph.nodes.forEach((n, i) => {
    const ins = (n.inputs ?? []).map((v) => (typeof v === "number" ? ([v, 0] as const) : v));
    const g = group(n.path ?? "");
    rows[n.born ?? 0].push({
      id: n.id ?? i,
      born: n.born ?? 0,
      died: n.died ?? -1,
      name: n.name ?? "",
      op: n.op,
      kind: n.kind ?? "elementwise",
      input_nodes: ins.map((v) => v[0]),
      input_ports: ins.map((v) => v[1]),
      outputs: n.outputs ?? ["float32[2, 8]"],
      attr_keys: [],
      attr_values: [],
      groups: g < 0 ? [] : [g],
      replaces: n.replaces ?? [],
      bodies: n.bodies ?? [],
    });
  });
  rows.forEach((r, s) => {
    if (r.length > 0) members.set(`${prefix}/nodes.${s}`, encodeTable(GRAPH_TABLES.nodes, r, strings));
  });
  if (groups.length > 0) members.set(`${prefix}/groups`, encodeTable(GRAPH_TABLES.groups, groups, strings));
}

export function makeGlass(graph: GraphSpec, title = "test"): Uint8Array {
  const strings = new StringTable();
  const members = new Map<string, Uint8Array>();
  const graphs = [graph, ...(graph.bodies ?? [])];
  graphs.forEach((g, k) => addGraph(g, `g${k}`, members, strings));
  members.set(
    "strings",
    encodeTable(
      { text: { type: "text", since: 0 } },
      strings.list.map((text) => ({ text })),
      strings,
    ),
  );
  const header = {
    format: "glasshouse",
    version: [1, 0],
    generator: "test",
    title,
    facts: {},
    tables: {},
    graphs: graphs.map((g, k) => ({
      name: k === 0 ? title : `body ${k}`,
      parent: k === 0 ? -1 : 0,
      attrs: {},
      stages: stagesOf(g).map((name) => ({
        name,
        pass_name: "",
        doc: "",
        seconds: 0,
        options: {},
        inputs: g.inputs ?? [],
        output_nodes: (g.outputs ?? []).map((o) => o[0]),
        output_ports: (g.outputs ?? []).map((o) => o[1]),
      })),
    })),
  };
  members.set("glass.json", new TextEncoder().encode(JSON.stringify(header)));
  return zip(members);
}

export function encodeTable(
  columns: Readonly<Record<string, ColumnSpec>>,
  rows: readonly Row[],
  strings: StringTable,
): Uint8Array {
  const described: unknown[] = [];
  const buffers: Uint8Array[] = [];
  let offset = 0;
  const part = (bytes: Uint8Array, kind: string): [number, number, string] => {
    const at = offset;
    const padded = new Uint8Array(Math.ceil(bytes.length / 8) * 8);
    padded.set(bytes);
    buffers.push(padded);
    offset += padded.length;
    return [at, bytes.length, kind];
  };
  const ints = (values: readonly number[]): [number, number, string] =>
    part(new Uint8Array(Int32Array.from(values).buffer), "i32");
  for (const [name, spec] of Object.entries(columns)) {
    if (spec.default !== undefined && rows.every((r) => r[name] === undefined)) continue;
    const values = rows.map((r) => r[name] ?? spec.default ?? 0);
    const text = (v: unknown): number => strings.id(String(v));
    switch (spec.type) {
      case "int": {
        // As the writer does for steady columns: differences, in the narrowest type.
        const deltas = (values as number[]).map((v, i) => v - (i > 0 ? (values[i - 1] as number) : 0));
        const small = deltas.every((d) => d >= -128 && d < 128);
        if (small)
          described.push({
            name,
            type: "int",
            enc: "delta",
            parts: [part(new Uint8Array(Int8Array.from(deltas).buffer), "i8")],
          });
        else described.push({ name, type: "int", parts: [ints(values as number[])] });
        break;
      }
      case "float":
        described.push({
          name,
          type: "float",
          parts: [part(new Uint8Array(Float64Array.from(values as number[]).buffer), "f64")],
        });
        break;
      case "bool":
        described.push({ name, type: "bool", parts: [part(Uint8Array.from(values as number[]), "u8")] });
        break;
      case "str":
        described.push({ name, type: "str", parts: [ints(values.map(text))] });
        break;
      case "text": {
        const bytes = values.map((v) => new TextEncoder().encode(String(v)));
        const all = new Uint8Array(bytes.reduce((n, b) => n + b.length, 0));
        let at = 0;
        for (const b of bytes) {
          all.set(b, at);
          at += b.length;
        }
        described.push({ name, type: "text", parts: [ints(bytes.map((b) => b.length)), part(all, "u8")] });
        break;
      }
      default: {
        const lists = values as readonly (readonly (number | string)[])[];
        const flat = lists.flat().map((v) => (spec.type === "list<str>" ? text(v) : (v as number)));
        described.push({ name, type: spec.type, parts: [ints(lists.map((l) => l.length)), ints(flat)] });
      }
    }
  }
  const head = new TextEncoder().encode(JSON.stringify({ rows: rows.length, columns: described }));
  const start = Math.ceil((4 + head.length) / 8) * 8;
  const out = new Uint8Array(start + offset);
  new DataView(out.buffer).setUint32(0, head.length, true);
  out.set(head, 4);
  let at = start;
  for (const b of buffers) {
    out.set(b, at);
    at += b.length;
  }
  return out;
}

export function zip(members: ReadonlyMap<string, Uint8Array>): Uint8Array {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  for (const [name, data] of members) {
    const title = new TextEncoder().encode(name);
    const packed = new Uint8Array(deflateRawSync(data));
    const local = new Uint8Array(30 + title.length);
    const l = new DataView(local.buffer);
    l.setUint32(0, 0x04034b50, true);
    l.setUint16(8, 8, true);
    l.setUint32(18, packed.length, true);
    l.setUint32(22, data.length, true);
    l.setUint16(26, title.length, true);
    local.set(title, 30);
    const entry = new Uint8Array(46 + title.length);
    const e = new DataView(entry.buffer);
    e.setUint32(0, 0x02014b50, true);
    e.setUint16(10, 8, true);
    e.setUint32(20, packed.length, true);
    e.setUint32(24, data.length, true);
    e.setUint16(28, title.length, true);
    e.setUint32(42, at, true);
    entry.set(title, 46);
    parts.push(local, packed);
    directory.push(entry);
    at += local.length + packed.length;
  }
  const size = directory.reduce((n, d) => n + d.length, 0);
  const end = new Uint8Array(22);
  const d = new DataView(end.buffer);
  d.setUint32(0, 0x06054b50, true);
  d.setUint16(8, members.size, true);
  d.setUint16(10, members.size, true);
  d.setUint32(12, size, true);
  d.setUint32(16, at, true);
  const all = [...parts, ...directory, end];
  const out = new Uint8Array(all.reduce((n, b) => n + b.length, 0));
  let to = 0;
  for (const b of all) {
    out.set(b, to);
    to += b.length;
  }
  return out;
}
