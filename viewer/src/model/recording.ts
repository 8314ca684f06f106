/** How a recording is opened: directory and header at once, every table when it is asked for. */

import { GlassError } from "../base/errors";
import { Budget, checkNesting } from "./budget";
import { FORMAT, VERSION, type GraphInfo, type Header, type Stage } from "./schema";
import { Strings } from "./strings";
import { Table } from "./table";
import { Zip } from "./zip";

export class Recording {
  private readonly tables = new Map<string, Promise<Table | null>>();

  private constructor(
    private readonly zip: Zip,
    readonly header: Header,
    readonly strings: Strings,
    readonly budget: Budget,
  ) {}

  static async open(bytes: Uint8Array): Promise<Recording> {
    const budget = new Budget(bytes.length);
    const zip = new Zip(bytes, budget);
    const header = parseHeader(await zip.read("glass.json"), budget);
    const strings = new Strings(zip.has("strings") ? new Table("strings", await zip.read("strings"), budget) : null);
    return new Recording(zip, header, strings, budget);
  }

  /** A table by member name ("g0/kernels"); null when the file has none. */
  table(name: string): Promise<Table | null> {
    let found = this.tables.get(name);
    if (!found) {
      found = this.zip.has(name)
        ? this.zip.read(name).then((b) => new Table(name, b, this.budget))
        : Promise.resolve(null);
      this.tables.set(name, found);
    }
    return found;
  }

  graphTable(graph: number, name: string): Promise<Table | null> {
    return this.table(`g${graph}/${name}`);
  }
}

function parseHeader(data: Uint8Array, budget: Budget): Header {
  let value: unknown;
  try {
    value = budget.json(data, "glass.json");
  } catch (e) {
    if (e instanceof GlassError) throw e;
    throw new GlassError("the header is not JSON", "glass.json", "The file is damaged; write it again.");
  }
  if (!isObject(value) || value.format !== FORMAT) throw new GlassError("not a Glasshouse recording", "glass.json");
  const version = value.version;
  if (!Array.isArray(version) || typeof version[0] !== "number") throw new GlassError("has no version", "glass.json");
  if (version[0] > VERSION[0]) {
    throw new GlassError(
      `written in format ${version.join(".")}, this page reads up to ${VERSION[0]}.x`,
      "glass.json",
      "Run: pip install --upgrade glasshouse",
    );
  }
  if (!Array.isArray(value.graphs) || value.graphs.length === 0) {
    throw new GlassError("the recording holds no graph", "glass.json.graphs");
  }
  const graphs = value.graphs.map((g, i) => parseGraph(g, i, budget));
  checkNesting(
    graphs.map((g) => g.parent),
    budget,
    "glass.json.graphs",
  );
  return {
    format: FORMAT,
    version: version as number[],
    generator: text(value.generator),
    title: text(value.title),
    graphs,
    facts: textMap(value.facts),
    tables: isObject(value.tables) ? (value.tables as Record<string, number>) : {},
  };
}

function parseGraph(g: unknown, i: number, budget: Budget): GraphInfo {
  const where = `glass.json.graphs[${i}]`;
  if (!isObject(g) || !Array.isArray(g.stages) || g.stages.length === 0)
    throw new GlassError("a graph has no stage", where);
  budget.spend("graphs", 1 + g.stages.length, where);
  return {
    name: text(g.name),
    parent: typeof g.parent === "number" ? g.parent : -1,
    attrs: textMap(g.attrs),
    stages: g.stages.map((s): Stage => {
      if (!isObject(s)) throw new GlassError("a stage is not an object", where);
      return {
        name: text(s.name),
        pass_name: text(s.pass_name),
        doc: text(s.doc),
        seconds: typeof s.seconds === "number" ? s.seconds : 0,
        options: textMap(s.options),
        inputs: numbers(s.inputs),
        output_nodes: numbers(s.output_nodes),
        output_ports: numbers(s.output_ports),
      };
    }),
  };
}

type Bag = Record<string, unknown>;
const isObject = (v: unknown): v is Bag => typeof v === "object" && v !== null && !Array.isArray(v);
const text = (v: unknown): string => (typeof v === "string" ? v : "");
const numbers = (v: unknown): number[] => (Array.isArray(v) ? v.filter((x): x is number => typeof x === "number") : []);

function textMap(v: unknown): Record<string, string> {
  const out: Record<string, string> = {};
  if (isObject(v)) for (const k of Object.keys(v)) out[k] = text(v[k]);
  return out;
}
