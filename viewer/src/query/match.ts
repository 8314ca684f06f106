/** Which nodes and groups a question finds: one array of flags for each term, then and, or, not. */

import { shortType } from "../base/format";
import type { Csr } from "../base/csr";
import { isModelInput, soleHome } from "../model/labels";
import { changesOf, CHANGED, ADDED, REMOVED } from "./changes";
import { coldInts, coldList } from "./cold";
import { FIELDS, matches, type Field, type Pattern, type Query, type Term } from "./language";
import { byItem, isParameter, measure, measureNames } from "./measures";
import type { Shown } from "./shown";
import { tablesOf } from "./tables";
import { Texts } from "./texts";
import { nodeOfId } from "./shown";
import { QueryError } from "./language";

/** Flags by item: nodes first, then groups. */
export type Flags = Uint8Array;

const texts = new WeakMap<object, Texts>();

function textsOf(s: Shown): Texts {
  let t = texts.get(s.recording);
  if (!t) texts.set(s.recording, (t = new Texts(s.recording.strings)));
  return t;
}

export async function find(s: Shown, query: Query): Promise<Flags> {
  const items = s.h.nodes + s.h.groups;
  const out = new Uint8Array(items);
  for (const terms of query) {
    const all = new Uint8Array(items).fill(1);
    for (const term of terms) {
      const one = await flagsOf(s, term);
      if (term.not) for (let i = 0; i < items; i++) all[i] &= 1 - one[i];
      else for (let i = 0; i < items; i++) all[i] &= one[i];
      // "Not" speaks of nodes; every group around them would be found otherwise.
      if (term.not && terms.every((t) => t.not)) all.fill(0, s.h.nodes);
    }
    for (let i = 0; i < items; i++) out[i] |= all[i];
  }
  out[s.h.nodes] = 0; // the root is no result
  // A module around one op is that op.
  for (let n = 0; n < s.h.nodes; n++) {
    const home = out[n] ? soleHome(s.h, n) : -1;
    if (home >= 0) out[home] = 1;
  }
  return out;
}

async function flagsOf(s: Shown, term: Term): Promise<Flags> {
  const f = new Matcher(s);
  switch (term.type) {
    case "text":
      return f.text(term.pattern);
    case "field":
      return f.field(term.field, term.pattern);
    case "shape":
      return f.shape(term.pattern);
    case "place":
      return f.place(term.file, term.from, term.to);
    case "attr":
      return f.attr(term.key, term.pattern);
    case "measure": {
      const m = await measure(s, term.name);
      if (!m)
        throw new QueryError(
          `This file has no figures called "${term.name}". It has ${(await measureNames(s)).map((x) => x.name.replace(/^data:/, "")).join(", ")}.`,
        );
      if (m.absent) throw new QueryError(`${m.title} is ${m.absent}.`);
      const v = byItem(s.h, m);
      const out = f.empty();
      for (let i = 0; i < out.length; i++) {
        const x = v[i];
        const c = term.compare;
        out[i] = (
          c === ">"
            ? x > term.value
            : c === ">="
              ? x >= term.value
              : c === "<"
                ? x < term.value
                : c === "<="
                  ? x <= term.value
                  : x === term.value
        )
          ? 1
          : 0;
      }
      return out;
    }
  }
}

/** A pattern as a test of string indices. */
type Test = (text: number) => boolean;

export class Matcher {
  constructor(private readonly s: Shown) {}

  empty(): Flags {
    return new Uint8Array(this.s.h.nodes + this.s.h.groups);
  }

  private test(pattern: Pattern): Test {
    return textsOf(this.s).matching(pattern);
  }

  private byRow(test: (row: number) => boolean): Flags {
    const { h } = this.s;
    const out = this.empty();
    for (let n = 0; n < h.nodes; n++) {
      const r = h.stage.row[n];
      if (r >= 0 && test(r)) out[n] = 1;
    }
    return out;
  }

  private anyOf(list: Csr, row: number, test: Test): boolean {
    for (let i = list.offsets[row]; i < list.offsets[row + 1]; i++) if (test(list.values[i])) return true;
    return false;
  }

  /** Marks groups whose own row fits. */
  private groups(out: Flags, test: (row: number) => boolean): Flags {
    const { h } = this.s;
    for (let g = 1; g < h.groups; g++) {
      let fits = h.raw[g] >= 0 && test(h.rows.file[h.raw[g]]);
      for (let i = h.absorbed.offsets[g]; !fits && i < h.absorbed.offsets[g + 1]; i++)
        fits = test(h.absorbed.values[i]);
      if (fits) out[h.nodes + g] = 1;
    }
    return out;
  }

  text(pattern: Pattern): Flags {
    const { graph, h } = this.s;
    const test = this.test(pattern);
    const names = coldList(graph, "output_names");
    const out = this.byRow((r) => test(graph.name[r]) || test(graph.op[r]) || this.anyOf(names, r, test));
    for (let n = 0; n < h.nodes; n++) if (h.stage.row[n] < 0 && matches(pattern, "output")) out[n] = 1;
    return this.groups(out, (r) => test(graph.groups.name[r]) || test(graph.groups.cls[r]));
  }

  async field(field: Field, pattern: Pattern): Promise<Flags> {
    const { graph } = this.s;
    const test = this.test(pattern);
    switch (field) {
      case "op":
        return this.byRow((r) => test(graph.op[r]));
      case "name":
        return this.groups(
          this.byRow((r) => test(graph.name[r])),
          (r) => test(graph.groups.name[r]),
        );
      case "kind":
        return this.byRow((r) => test(graph.kind[r]));
      case "class":
        return this.groups(this.empty(), (r) => test(graph.groups.cls[r]));
      case "group":
        return this.groups(this.empty(), (r) => test(graph.groups.name[r]));
      case "pass":
        return this.column("pass_name", test);
      case "rule":
        return this.column("rule", test);
      case "file":
        return this.groups(this.column("file", test), (r) => test(graph.groups.table?.ints("file")[r] ?? 0));
      case "input":
        return this.lists("input_names", test);
      case "output":
        return this.lists("output_names", test);
      case "frame":
        return this.lists("frames", test);
      case "dtype":
        return this.types((type) => matches(pattern, type.replace(/\[.*$/, "")));
      case "id":
        return this.byRow((r) =>
          pattern.how === "regex" ? pattern.regex.test(String(graph.id[r])) : String(graph.id[r]) === pattern.text,
        );
      case "in":
        return this.inside(pattern);
      case "kernel":
        return this.kernels(test);
      case "is":
        return this.is(pattern);
    }
  }

  private column(name: string, test: Test): Flags {
    const column = coldInts(this.s.graph, name);
    return this.byRow((r) => test(column[r]));
  }

  private lists(name: string, test: Test): Flags {
    const list = coldList(this.s.graph, name);
    return this.byRow((r) => this.anyOf(list, r, test));
  }

  private types(test: (type: string) => boolean): Flags {
    const { graph } = this.s;
    const known = new Map<number, boolean>();
    const one = (text: number): boolean => {
      let k = known.get(text);
      if (k === undefined) known.set(text, (k = test(shortType(graph.strings.head(text, 400)))));
      return k;
    };
    return this.byRow((r) => this.anyOf(graph.outputs, r, one));
  }

  shape(pattern: Pattern): Flags {
    return this.types((type) => matches(pattern, type));
  }

  place(file: string, from: number, to: number): Flags {
    const { graph } = this.s;
    const lines = coldInts(graph, "line");
    const files = coldInts(graph, "file");
    const fits = file ? this.test({ how: "part", text: file }) : () => true;
    const hits = this.byRow((r) => lines[r] >= from && lines[r] <= to && fits(files[r]));
    const table = graph.groups.table;
    if (!table) return hits;
    const groupLines = table.ints("line");
    const groupFiles = table.ints("file");
    return this.groups(hits, (r) => groupLines[r] >= from && groupLines[r] <= to && fits(groupFiles[r]));
  }

  attr(key: string, pattern: Pattern): Flags {
    const { graph } = this.s;
    const test = this.test(pattern);
    const isKey = key ? this.test({ how: "whole", text: key }) : () => true;
    const keys = coldList(graph, "attr_keys");
    const values = coldList(graph, "attr_values");
    let known = key === "";
    const fits = (k: Csr, v: Csr, r: number): boolean => {
      for (let i = k.offsets[r]; i < k.offsets[r + 1]; i++) {
        if (!isKey(k.values[i])) continue;
        known = true;
        if (test(v.values[i])) return true;
      }
      return false;
    };
    const hits = this.byRow((r) => fits(keys, values, r));
    const table = graph.groups.table;
    const out = table ? this.groups(hits, (r) => fits(table.list("attr_keys"), table.list("attr_values"), r)) : hits;
    if (!known)
      throw new QueryError(
        `No node has an attribute "${key}". Fields are ${FIELDS.join(", ")}, shape, line and attr; in quotes it is plain text.`,
      );
    return out;
  }

  /** Everything below a group whose name, class or dotted path fits. */
  private inside(pattern: Pattern): Flags {
    const { h, graph } = this.s;
    const rows = graph.groups;
    // Rows stand after their parents: each path is its parent's and one name more.
    const paths: string[] = [];
    for (let r = 0; r < rows.rows; r++) {
      const own = graph.strings.head(rows.name[r], 80);
      paths.push(rows.parent[r] >= 0 && rows.parent[r] < r ? `${paths[rows.parent[r]]}.${own}` : own);
    }
    const fitsClass = this.test(pattern);
    const out = this.empty();
    const hit = new Uint8Array(h.groups);
    // Groups stand after their parents, so one sweep carries a hit down.
    for (let g = 1; g < h.groups; g++) {
      const above = h.parent[h.nodes + g] - h.nodes;
      const r = h.raw[g] >= 0 ? h.rows.file[h.raw[g]] : -1;
      const own = r >= 0 && (matches(pattern, paths[r]) || fitsClass(rows.cls[r]));
      hit[g] = hit[above] || own ? 1 : 0;
      if (hit[above]) out[h.nodes + g] = 1;
    }
    for (let n = 0; n < h.nodes; n++) out[n] = hit[h.parent[n] - h.nodes];
    return out;
  }

  private async kernels(test: Test): Promise<Flags> {
    const out = this.empty();
    const table = await tablesOf(this.s.recording, this.s.graph.index).table("kernels");
    if (!table) return out;
    const map = nodeOfId(this.s.stage);
    const mark = (id: number): void => {
      const n = map.get(id);
      if (n !== undefined) out[n] = 1;
    };
    const name = table.ints("name");
    const variant = table.ints("variant");
    const node = table.ints("node", -1);
    const ops = table.list("ops");
    for (let r = 0; r < table.rows; r++) {
      if (!test(name[r]) && !test(variant[r])) continue;
      mark(node[r]);
      for (let i = ops.offsets[r]; i < ops.offsets[r + 1]; i++) mark(ops.values[i]);
    }
    return out;
  }

  private async is(pattern: Pattern): Promise<Flags> {
    const { s } = this;
    const { h, graph } = s;
    const what = pattern.how === "regex" ? "" : pattern.text;
    const kindIs = (kind: string): Flags => this.byRow((r) => graph.strings.at(graph.kind[r]) === kind);
    const byNode = (test: (n: number) => boolean): Flags => {
      const out = this.empty();
      for (let n = 0; n < h.nodes; n++) if (test(n)) out[n] = 1;
      return out;
    };
    switch (what) {
      case "added":
      case "changed":
      case "removed": {
        const mark = changesOf(h);
        const wanted = what === "added" ? ADDED : what === "changed" ? CHANGED : REMOVED;
        return byNode((n) => mark[n] === wanted);
      }
      case "input":
        return byNode((n) => isModelInput(h, n));
      case "output":
        return byNode((n) => h.stage.row[n] < 0);
      case "constant":
      case "parameter":
      case "weight":
        return byNode((n) => isParameter(h, n));
      case "opaque":
        return kindIs("opaque");
      case "source":
        return kindIs("source");
      case "fused": {
        const bodies = coldList(graph, "bodies");
        return this.byRow((r) => bodies.offsets[r] < bodies.offsets[r + 1]);
      }
      case "gradient": {
        const of = coldInts(graph, "grad_of", -1);
        return this.byRow((r) => of[r] >= 0);
      }
      case "group": {
        const out = this.empty();
        out.fill(1, h.nodes);
        return out;
      }
      case "op":
        return byNode(() => true);
      default:
        throw new QueryError(
          `"is:${what}" is not known; there are added, changed, removed, input, output, constant, fused, gradient, opaque, group and op.`,
        );
    }
  }
}
