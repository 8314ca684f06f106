/** Which sibling groups are identical: same ops, types, classes, order and inner edges. */

import type { Csr } from "../base/csr";
import { finish, mix } from "../base/hash";
import type { GroupRows, Intervals } from "./hierarchy";
import type { StageGraph } from "./stage";

export interface GroupHashes {
  readonly a: Int32Array;
  readonly b: Int32Array;
}

/**
 * Two independent 32-bit hashes for each group, bottom-up in one sweep. Attributes are left out: they
 * carry weight names that differ between identical layers. An edge counts at the innermost group that
 * holds both ends, by the ends' places inside that group, so twins far apart hash alike.
 */
export function hashGroups(
  stage: StageGraph,
  rows: GroupRows,
  raw: Int32Array,
  parent: Int32Array,
  tree: Intervals,
): GroupHashes {
  const N = stage.count;
  const G = raw.length;
  const { graph } = stage;
  const { pos, start, end, members } = tree;
  const edgeA = new Int32Array(G);
  const edgeB = new Int32Array(G);
  for (let n = 0; n < N; n++) {
    const first = stage.inputs.offsets[n];
    for (let i = first; i < stage.inputs.offsets[n + 1]; i++) {
      const src = stage.inputs.values[i];
      if (src < 0) continue;
      let g = parent[n] - N;
      while (pos[src] < start[g] || pos[src] >= end[g]) g = parent[N + g] - N;
      const h = mix(
        mix(mix(i - first, pos[src] - start[g]), pos[n] - start[g]),
        stage.inputTensor[i] - stage.tensorStart[src],
      );
      edgeA[g] += finish(h);
      edgeB[g] += finish(h ^ 0x3c6ef372);
    }
  }
  const a = new Int32Array(G);
  const b = new Int32Array(G);
  for (let g = G - 1; g >= 0; g--) {
    let x = mix(0x1234567, raw[g] >= 0 ? graph.groups.cls[rows.file[raw[g]]] : 0);
    let y = mix(0x7654321, edgeB[g]);
    x = mix(x, edgeA[g]);
    for (let i = members.offsets[g]; i < members.offsets[g + 1]; i++) {
      const item = members.values[i];
      if (item >= N) {
        const r = raw[item - N] >= 0 ? rows.file[raw[item - N]] : -1;
        const name = r >= 0 && !isNumber(graph.strings.head(graph.groups.name[r], 12)) ? graph.groups.name[r] : 0;
        x = mix(mix(x, a[item - N]), name);
        y = mix(mix(y, b[item - N]), name);
        continue;
      }
      const r = stage.row[item];
      const arity = stage.inputs.offsets[item + 1] - stage.inputs.offsets[item];
      let h = mix(mix(arity, stage.change[item]), r < 0 ? -1 : graph.op[r]);
      if (r >= 0) {
        for (let k = graph.outputs.offsets[r]; k < graph.outputs.offsets[r + 1]; k++)
          h = mix(h, graph.outputs.values[k]);
      }
      x = mix(x, h);
      y = mix(y, h ^ 0x5f356495);
    }
    a[g] = finish(x);
    b[g] = finish(y);
  }
  return { a, b };
}

export const isNumber = (name: string): boolean => /^\d+$/.test(name);

export interface Runs {
  /** For each group: its member count when it consists of one run and nothing else, else 0. */
  readonly repeat: Int32Array;
  /** Further runs, as lists of group items, that need a group of their own. */
  readonly added: readonly (readonly number[])[];
}

export function findRuns(
  stage: StageGraph,
  rows: GroupRows,
  raw: Int32Array,
  members: Csr,
  hashes: GroupHashes,
  least: number,
): Runs {
  const N = stage.count;
  const repeat = new Int32Array(raw.length);
  const added: number[][] = [];
  for (let g = 0; g < raw.length; g++) {
    const from = members.offsets[g];
    const to = members.offsets[g + 1];
    for (let i = from; i < to; ) {
      const item = members.values[i];
      let j = i + 1;
      // Kernels that somebody unfolded stay apart: they were opened to be looked at one by one.
      const inside = item >= N && raw[item - N] >= 0 ? stage.graph.groups.inside?.[rows.file[raw[item - N]]] : -1;
      if (item >= N && (inside ?? -1) < 0) {
        const stem = stemOf(stage, rows, raw[item - N]);
        while (
          j < to &&
          members.values[j] >= N &&
          same(hashes, item - N, members.values[j] - N) &&
          stemOf(stage, rows, raw[members.values[j] - N]) === stem
        )
          j++;
        if (j - i >= least) {
          if (j - i === to - from) repeat[g] = j - i;
          else added.push(Array.from(members.values.subarray(i, j)));
        }
      }
      i = j;
    }
  }
  return { repeat, added };
}

/** The name without its number: "layer1" and "layer2" are one of many, "query" and "key" are not. */
function stemOf(stage: StageGraph, rows: GroupRows, row: number): string {
  return row < 0 ? "" : stage.graph.strings.head(stage.graph.groups.name[rows.file[row]], 80).replace(/[._-]?\d+$/, "");
}

const same = (h: GroupHashes, p: number, q: number): boolean => h.a[p] === h.a[q] && h.b[p] === h.b[q];
