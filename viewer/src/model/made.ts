/** Groups that the file does not have (blocks, steps, what is computed from constants): rows behind its own, with keys that hold in every stage. */

import type { Csr } from "../base/csr";
import { finish, hashText, mix } from "../base/hash";
import type { Graph, GroupColumns } from "./graph";

/** Keys of such groups lie between those of rows and those of unfolded nodes. */
const MADE = 2 ** 29;

/** The key of a group in another: which stage made it, and in which row, changes from stage to stage; where it stands and its name do not. */
export function keyWithin(holder: number, name: string, nth = 0): number {
  return MADE + ((finish(mix(mix(holder, hashText(name)), nth)) >>> 0) % MADE);
}

/** The columns of a file's groups with more groups, of one grouping, behind them; their parents come before them. */
export function addedColumns(
  graph: Graph,
  grouping: number,
  parent: readonly number[],
  name: readonly number[],
): GroupColumns {
  const { groups, strings } = graph;
  const more = (a: Int32Array, b: readonly number[]): Int32Array => {
    const out = new Int32Array(a.length + b.length);
    out.set(a);
    out.set(b, a.length);
    return out;
  };
  const all = (value: number): number[] => name.map(() => value);
  const key = more(groups.key, all(0));
  const kind = grouping < 0 ? "" : strings.at(grouping);
  const named = new Map<string, number>();
  const taken = new Set<number>();
  for (let k = 0; k < name.length; k++) {
    const holder = parent[k] < 0 ? 0 : key[parent[k]];
    const twin = `${holder} ${name[k]}`;
    const nth = named.get(twin) ?? 0;
    named.set(twin, nth + 1);
    let own = keyWithin(holder, `${kind}/${strings.at(name[k])}`, nth);
    while (taken.has(own)) own = own + 1 < 2 * MADE ? own + 1 : MADE;
    taken.add(own);
    key[groups.rows + k] = own;
  }
  return {
    rows: groups.rows + name.length,
    key,
    grouping: more(groups.grouping, all(grouping)),
    parent: more(groups.parent, parent),
    name: more(groups.name, name),
    cls: more(groups.cls, all(0)),
    inside: groups.inside && more(groups.inside, all(-1)),
    table: groups.table,
  };
}

/** The groups of each row with one more where `home` names one. */
export function addedGroups(graph: Graph, home: Int32Array): Csr {
  const { offsets, values } = graph.groupsOf;
  const out: number[] = [];
  const starts = new Int32Array(graph.rows + 1);
  for (let r = 0; r < graph.rows; r++) {
    for (let i = offsets[r]; i < offsets[r + 1]; i++) out.push(values[i]);
    if (home[r] >= 0) out.push(home[r]);
    starts[r + 1] = out.length;
  }
  return { offsets: starts, values: Int32Array.from(out) };
}
