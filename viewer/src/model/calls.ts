/** When a module that is called several times is several boxes: when one box would close a cycle. */

import { bucket } from "../base/csr";
import { components } from "../base/scc";
import type { StageGraph } from "./stage";

/**
 * An activation module used before and after a convolution has two unconnected parts, and as one box it
 * would have to stand both above and below the convolution. Such a leaf module is cut into its calls.
 * `home` is changed: nodes of later calls get numbers from `groups` on. Returns the module of each such
 * number, in order.
 */
export function splitCalls(stage: StageGraph, home: Int32Array, parent: Int32Array, groups: number): number[] {
  const N = stage.count;
  const inner = new Uint8Array(groups);
  for (let g = 0; g < groups; g++) if (parent[g] >= 0) inner[parent[g]] = 1;
  const byHome = bucket(home, groups);

  // Unconnected parts of each leaf module, by union-find over its own edges.
  const root = new Int32Array(N);
  for (let n = 0; n < N; n++) root[n] = n;
  const find = (n: number): number => {
    while (root[n] !== n) n = root[n] = root[root[n]];
    return n;
  };
  // A weight goes with its first reader: one that two calls read (a tied embedding) does not make them one.
  const taken = new Uint8Array(N);
  for (let n = 0; n < N; n++) {
    const g = home[n];
    if (g < 0 || inner[g]) continue;
    for (let i = stage.inputs.offsets[n]; i < stage.inputs.offsets[n + 1]; i++) {
      const src = stage.inputs.values[i];
      if (src < 0 || home[src] !== g) continue;
      if (stage.inputs.offsets[src + 1] === stage.inputs.offsets[src]) {
        if (taken[src]) continue;
        taken[src] = 1;
      }
      root[find(n)] = find(src);
    }
  }
  // A weight that no op of the module reads is no call; it goes with the first.
  const idle = (n: number): boolean =>
    stage.inputs.offsets[n + 1] === stage.inputs.offsets[n] && find(n) === n && alone[n] === 0;
  const alone = new Int32Array(N);
  for (let n = 0; n < N; n++) if (find(n) !== n) alone[find(n)]++;
  const suspects: number[] = [];
  for (let g = 0; g < groups; g++) {
    if (inner[g]) continue;
    let first = -1;
    for (let i = byHome.offsets[g]; i < byHome.offsets[g + 1]; i++) {
      const n = byHome.values[i];
      if (idle(n)) continue;
      if (first < 0) first = find(n);
      else if (find(n) !== first) {
        suspects.push(g);
        break;
      }
    }
  }
  if (suspects.length === 0) return [];

  const cyclic = onCycles(stage, home, parent, new Set(suspects));
  const origin: number[] = [];
  for (const g of suspects) {
    if (!cyclic.has(g)) continue;
    const number = new Map<number, number>();
    for (let i = byHome.offsets[g]; i < byHome.offsets[g + 1]; i++) {
      const n = byHome.values[i];
      if (idle(n)) continue;
      const part = find(n);
      let to = number.get(part);
      if (to === undefined) {
        to = number.size === 0 ? g : groups + origin.push(g) - 1;
        number.set(part, to);
      }
      home[n] = to;
    }
  }
  return origin;
}

/** Those of `suspects` that lie on a cycle among the members of the group that holds them. */
export function onCycles(
  stage: StageGraph,
  home: Int32Array,
  parent: Int32Array,
  suspects: ReadonlySet<number>,
): Set<number> {
  const N = stage.count;
  const holders = new Set<number>();
  for (const g of suspects) holders.add(parent[g]);
  // Edges at each holder between its members: a member is a node (number) or a group (N + row).
  const edges = new Map<number, number[]>();
  const chain = (n: number): number[] => {
    const out = [n];
    for (let g = home[n]; g >= 0; g = parent[g]) out.push(N + g);
    return out;
  };
  for (let n = 0; n < N; n++) {
    const to = chain(n);
    for (let i = stage.inputs.offsets[n]; i < stage.inputs.offsets[n + 1]; i++) {
      const src = stage.inputs.values[i];
      if (src < 0) continue;
      const from = chain(src);
      // Walk down from the top while both are in the same group; the first difference is at the holder.
      let a = from.length - 1;
      let b = to.length - 1;
      while (a >= 0 && b >= 0 && from[a] === to[b]) {
        a--;
        b--;
      }
      if (a < 0 || b < 0) continue;
      const holder = a + 1 < from.length ? from[a + 1] - N : -1;
      if (!holders.has(holder)) continue;
      let list = edges.get(holder);
      if (!list) edges.set(holder, (list = []));
      list.push(from[a], to[b]);
    }
  }
  const out = new Set<number>();
  for (const list of edges.values()) {
    const ids = new Map<number, number>();
    const id = (m: number): number => {
      let k = ids.get(m);
      if (k === undefined) ids.set(m, (k = ids.size));
      return k;
    };
    const src = new Int32Array(list.length / 2);
    const dst = new Int32Array(list.length / 2);
    for (let i = 0; i < src.length; i++) {
      src[i] = id(list[2 * i]);
      dst[i] = id(list[2 * i + 1]);
    }
    const by = bucket(src, ids.size);
    const { of, size } = components(ids.size, { offsets: by.offsets, values: by.values.map((e) => dst[e]) });
    for (const [m, k] of ids) if (m >= N && size[of[k]] > 1 && suspects.has(m - N)) out.add(m - N);
  }
  return out;
}
