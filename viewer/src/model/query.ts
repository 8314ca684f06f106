/** Decides what a query means: terms that all must hold, over names, ops, attributes, shapes, lines. */

import { shortType } from "../base/format";
import type { Graph } from "./graph";
import type { Strings } from "./strings";

/**
 * `gelu` text in name or op · `/conv\d/` regular expression · `op:Add` `name:` `kind:` `shape:` `pass:` `class:` `module:` `id:` fields ·
 * `axis:1` `eps<1e-3` any attribute · `model.py:41` a source line · `-term` not · quotes hold spaces.
 * Search and style rules use the same language.
 */
export interface Term {
  readonly not: boolean;
  readonly field: string; // "" for plain text, "line" for file:line
  readonly op: ":" | "=" | "<" | ">" | "<=" | ">=";
  readonly text: string;
  readonly regex: RegExp | null;
}

export class QueryError extends Error {}

export function parseQuery(query: string): Term[] {
  const out: Term[] = [];
  const token = /-?(?:[\w.]+(?:<=|>=|[:=<>]))?(?:\/(?:\\.|[^/\\])+\/[i]*|"(?:\\.|[^"\\])*"?|\S+)/g;
  for (const m of query.matchAll(token)) out.push(parseTerm(m[0]));
  return out;
}

function parseTerm(raw: string): Term {
  const not = raw.startsWith("-") && raw.length > 1;
  let rest = not ? raw.slice(1) : raw;
  let field = "";
  let op: Term["op"] = ":";
  const line = /^([^\s:"/]*[\w-]\.\w{1,6}):(\d+)$/.exec(rest.replace(/^.*\//, ""));
  if (line && !rest.startsWith("/")) return { not, field: "line", op: "=", text: rest, regex: null };
  const head = /^([\w.]+)(<=|>=|[:=<>])(.+)$/s.exec(rest);
  if (head && !/^https?$/.test(head[1])) {
    field = head[1].toLowerCase();
    op = head[2] as Term["op"];
    rest = head[3];
  }
  const regex = /^\/(.+)\/([i]*)$/s.exec(rest);
  if (regex) {
    try {
      return { not, field, op, text: rest, regex: new RegExp(regex[1], regex[2] || "i") };
    } catch (e) {
      throw new QueryError(`/${regex[1]}/ is no regular expression: ${(e as Error).message.replace(/^.*: /, "")}`);
    }
  }
  const quoted = /^"((?:\\.|[^"\\])*)"?$/s.exec(rest);
  return { not, field, op, text: (quoted ? quoted[1].replace(/\\(.)/g, "$1") : rest).toLowerCase(), regex: null };
}

/** Tests shared strings by number, each at most once. */
class StringTest {
  private readonly known: Uint8Array;

  constructor(
    private readonly strings: Strings,
    private readonly test: (text: string) => boolean,
  ) {
    this.known = new Uint8Array(strings.count);
  }

  at(i: number): boolean {
    if (i < 0 || i >= this.known.length) return false;
    if (this.known[i] === 0) this.known[i] = this.test(this.strings.head(i, 4096)) ? 2 : 1;
    return this.known[i] === 2;
  }
}

export type RowTest = (row: number) => boolean;

/** A test for node rows of a graph. */
export function compileQuery(graph: Graph, terms: readonly Term[]): RowTest {
  const tests = terms.map((t) => {
    const test = compileTerm(graph, t);
    return t.not ? (row: number) => !test(row) : test;
  });
  return (row) => tests.every((t) => t(row));
}

function textTest(t: Term): (text: string) => boolean {
  if (t.regex) return (s) => (t.regex as RegExp).test(s);
  if (t.op === "=") return (s) => s.toLowerCase() === t.text;
  if (t.op === ":") return (s) => s.toLowerCase().includes(t.text);
  const limit = Number(t.text);
  return (s) => {
    const v = s.trim() === "" ? NaN : Number(s);
    return t.op === "<" ? v < limit : t.op === ">" ? v > limit : t.op === "<=" ? v <= limit : v >= limit;
  };
}

const some = (values: Int32Array, from: number, to: number, test: StringTest): boolean => {
  for (let i = from; i < to; i++) if (test.at(values[i])) return true;
  return false;
};

function compileTerm(graph: Graph, t: Term): RowTest {
  const { strings } = graph;
  const test = new StringTest(strings, textTest(t));
  switch (t.field) {
    case "": {
      const outputs = graph.coldList("output_names");
      return (r) => test.at(graph.name[r]) || test.at(graph.op[r]) || some(outputs.values, outputs.offsets[r], outputs.offsets[r + 1], test);
    }
    case "op":
      return (r) => test.at(graph.op[r]);
    case "name":
      return (r) => test.at(graph.name[r]);
    case "kind":
      return (r) => test.at(graph.kind[r]);
    case "pass": {
      const pass = graph.coldInts("pass_name");
      return (r) => test.at(pass[r]);
    }
    case "id":
      return (r) => String(graph.id[r]) === t.text;
    case "shape":
    case "type": {
      const plain = textTest({ ...t, text: t.text.replace(/\s+/g, "") });
      const shape = new StringTest(strings, (s) => plain(s.replace(/\s+/g, "")) || plain(shortType(s)));
      return (r) => some(graph.outputs.values, graph.outputs.offsets[r], graph.outputs.offsets[r + 1], shape);
    }
    case "line": {
      const [, file, line] = /^(.*):(\d+)$/.exec(t.text) as RegExpExecArray;
      const tail = file.toLowerCase();
      const files = graph.coldInts("file");
      const lines = graph.coldInts("line");
      const ends = new StringTest(strings, (s) => s.toLowerCase().endsWith(tail));
      return (r) => lines[r] === Number(line) && ends.at(files[r]);
    }
    case "file": {
      const files = graph.coldInts("file");
      return (r) => test.at(files[r]);
    }
    case "module":
    case "class":
      return groupTest(graph, test, t.field === "class");
    default: {
      const keys = graph.coldList("attr_keys");
      const values = graph.coldList("attr_values");
      const key = new StringTest(strings, (s) => s.toLowerCase() === t.field);
      return (r) => {
        for (let i = keys.offsets[r]; i < keys.offsets[r + 1]; i++) if (key.at(keys.values[i]) && test.at(values.values[i])) return true;
        return false;
      };
    }
  }
}

/** Nodes in a group, at any depth, whose name (or class) passes. */
function groupTest(graph: Graph, test: StringTest, cls: boolean): RowTest {
  const { rows, parent, name, cls: classes } = graph.groups;
  const inside = new Uint8Array(rows);
  for (let g = 0; g < rows; g++) {
    const above = parent[g] >= 0 && parent[g] < g ? inside[parent[g]] : 0;
    inside[g] = above || test.at(cls ? classes[g] : name[g]) ? 1 : 0;
  }
  return (r) => {
    for (let i = graph.groupsOf.offsets[r]; i < graph.groupsOf.offsets[r + 1]; i++) if (inside[graph.groupsOf.values[i]]) return true;
    return false;
  };
}
