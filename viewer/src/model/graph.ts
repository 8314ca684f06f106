/** How the rows of a graph are held over all stages: hot columns joined, cold ones by part. */

import type { Csr } from "../base/csr";
import { checkNesting } from "./budget";
import type { Recording } from "./recording";
import type { GraphInfo } from "./schema";
import type { Strings } from "./strings";
import type { Table } from "./table";

/** A row of `groups`, as columns. */
export interface GroupColumns {
  readonly rows: number;
  /** What names a group in every stage: its row + 1, or what `keyWithin` says of one that the file does not have. */
  readonly key: Int32Array;
  readonly grouping: Int32Array;
  readonly parent: Int32Array;
  readonly name: Int32Array;
  readonly cls: Int32Array;
  /** Row of the node whose inside a group is; -1 for a group of the file. Null when no node is unfolded. */
  readonly inside: Int32Array | null;
  /** Rows of the file alone. */
  readonly table: Table | null;
}

/** What unfolding nodes changes of a graph: all columns that every view needs. */
export type HotColumns = Pick<
  Graph,
  | "info"
  | "groups"
  | "id"
  | "born"
  | "died"
  | "name"
  | "op"
  | "kind"
  | "inputs"
  | "ports"
  | "outputs"
  | "groupsOf"
  | "replaces"
  | "bodies"
>;

/** Node rows of all stages, in file order; row numbers are what the rest of the viewer calls a node's row. */
export class Graph {
  private constructor(
    readonly index: number,
    readonly info: GraphInfo,
    readonly strings: Strings,
    readonly rows: number,
    private readonly parts: readonly Table[],
    private readonly starts: Int32Array,
    readonly groups: GroupColumns,
    readonly id: Int32Array,
    readonly born: Int32Array,
    readonly died: Int32Array,
    readonly name: Int32Array,
    readonly op: Int32Array,
    readonly kind: Int32Array,
    readonly inputs: Csr,
    readonly ports: Csr,
    readonly outputs: Csr,
    readonly groupsOf: Csr,
    readonly replaces: Csr,
    /** Graphs nested in each node. */
    readonly bodies: Csr,
    /** What the file says of all its graphs. */
    readonly all: readonly GraphInfo[],
  ) {}

  static async load(rec: Recording, index: number): Promise<Graph> {
    const info = rec.header.graphs[index];
    const parts: Table[] = [];
    for (let s = 0; s < info.stages.length; s++) {
      const part = await rec.graphTable(index, `nodes.${s}`);
      if (part && part.rows > 0) parts.push(part);
    }
    const starts = new Int32Array(parts.length + 1);
    parts.forEach((p, i) => (starts[i + 1] = starts[i] + p.rows));
    const rows = starts[parts.length];
    const groupTable = await rec.graphTable(index, "groups");
    const none = new Int32Array(0);
    const groups: GroupColumns = groupTable
      ? {
          rows: groupTable.rows,
          key: Int32Array.from({ length: groupTable.rows }, (_, r) => r + 1),
          grouping: groupTable.ints("grouping"),
          parent: groupTable.ints("parent", -1),
          name: groupTable.ints("name"),
          cls: groupTable.ints("cls"),
          inside: null,
          table: groupTable,
        }
      : { rows: 0, key: none, grouping: none, parent: none, name: none, cls: none, inside: null, table: null };
    checkNesting(groups.parent, rec.budget, `g${index}/groups`);
    const ints = (c: string, absent = 0): Int32Array =>
      joinInts(
        parts.map((p) => p.ints(c, absent)),
        rows,
      );
    const list = (c: string): Csr =>
      joinLists(
        parts.map((p) => p.list(c)),
        rows,
      );
    const nests = rec.header.graphs.some((g) => g.parent === index);
    return new Graph(
      index,
      info,
      rec.strings,
      rows,
      parts,
      starts,
      groups,
      ints("id"),
      ints("born"),
      ints("died", -1),
      ints("name"),
      ints("op"),
      ints("kind"),
      list("input_nodes"),
      list("input_ports"),
      list("outputs"),
      list("groups"),
      list("replaces"),
      nests ? list("bodies") : { offsets: new Int32Array(rows + 1), values: none },
      rec.header.graphs,
    );
  }

  /** This graph followed by the rows of others; `hot` says what is read and shown of all of them. */
  joined(others: readonly Graph[], hot: HotColumns): Graph {
    const parts = [...this.parts, ...others.flatMap((g) => g.parts)];
    const starts = new Int32Array(parts.length + 1);
    parts.forEach((p, i) => (starts[i + 1] = starts[i] + p.rows));
    return new Graph(
      this.index,
      hot.info,
      this.strings,
      starts[parts.length],
      parts,
      starts,
      hot.groups,
      hot.id,
      hot.born,
      hot.died,
      hot.name,
      hot.op,
      hot.kind,
      hot.inputs,
      hot.ports,
      hot.outputs,
      hot.groupsOf,
      hot.replaces,
      hot.bodies,
      this.all,
    );
  }

  /** The part that holds a row, and the row inside it: for columns that only details need. */
  partOf(row: number): { table: Table; row: number } {
    let i = 0;
    while (i + 1 < this.parts.length && this.starts[i + 1] <= row) i++;
    return { table: this.parts[i], row: row - this.starts[i] };
  }

  /** A cold `int` or `str` column over all rows (search and colouring want whole columns). */
  coldInts(column: string, absent = 0): Int32Array {
    return joinInts(
      this.parts.map((p) => p.ints(column, absent)),
      this.rows,
    );
  }

  coldList(column: string): Csr {
    return joinLists(
      this.parts.map((p) => p.list(column)),
      this.rows,
    );
  }

  /** The names of the groupings that group something, in order of first appearance. */
  groupings(): string[] {
    const { grouping, rows } = this.groups;
    const names: number[] = [];
    const number = new Map<number, number>();
    // Groupings by a small number of their own: this loop is over all nodes, and a map for each would cost a tenth of opening.
    const kindOf = new Int32Array(rows).fill(-1);
    for (let g = 0; g < rows; g++) {
      if (grouping[g] < 0) continue;
      let k = number.get(grouping[g]);
      if (k === undefined) number.set(grouping[g], (k = names.push(grouping[g]) - 1));
      kindOf[g] = k;
    }
    const held = new Int32Array(names.length);
    const first = new Int32Array(names.length).fill(-1);
    const several = new Uint8Array(names.length);
    const { values } = this.groupsOf;
    for (let i = 0; i < values.length; i++) {
      const g = values[i];
      const k = g >= 0 && g < rows ? kindOf[g] : -1;
      if (k < 0) continue;
      held[k]++;
      if (first[k] < 0) first[k] = g;
      else if (first[k] !== g) several[k] = 1;
    }
    // Two groups are a grouping already; one is, when something stands outside.
    const useful = names.filter((_, k) => several[k] === 1 || (held[k] > 0 && held[k] < this.rows));
    return useful.map((s) => this.strings.at(s));
  }
}

function joinInts(parts: readonly Int32Array[], rows: number): Int32Array {
  if (parts.length === 1) return parts[0];
  const out = new Int32Array(rows);
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

function joinLists(parts: readonly Csr[], rows: number): Csr {
  if (parts.length === 1) return parts[0];
  let total = 0;
  for (const p of parts) total += p.values.length;
  const offsets = new Int32Array(rows + 1);
  const values = new Int32Array(total);
  let row = 0;
  let at = 0;
  for (const p of parts) {
    for (let i = 1; i < p.offsets.length; i++) offsets[row + i] = at + p.offsets[i];
    values.set(p.values, at);
    row += p.offsets.length - 1;
    at += p.values.length;
  }
  return { offsets, values };
}
