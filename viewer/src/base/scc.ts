/** Which vertices of a directed graph lie on a common cycle: strongly connected components, without recursion. */

import type { Csr } from "./csr";

/** A component number for each vertex; `size[c]` is how many vertices component c has. */
export function components(n: number, next: Csr): { of: Int32Array; size: Int32Array } {
  const of = new Int32Array(n).fill(-1);
  const number = new Int32Array(n); // 0: not met
  const low = new Int32Array(n);
  const at = next.offsets.slice(0, n);
  const path: number[] = [];
  const held: number[] = [];
  const sizes: number[] = [];
  let count = 0;
  for (let s = 0; s < n; s++) {
    if (number[s] !== 0) continue;
    path.push(s);
    while (path.length > 0) {
      const v = path[path.length - 1];
      if (number[v] === 0) {
        number[v] = low[v] = ++count;
        held.push(v);
      }
      if (at[v] < next.offsets[v + 1]) {
        const w = next.values[at[v]++];
        if (number[w] === 0) path.push(w);
        else if (of[w] < 0) low[v] = Math.min(low[v], number[w]);
        continue;
      }
      path.pop();
      if (low[v] === number[v]) {
        let members = 0;
        for (;;) {
          const w = held.pop() as number;
          of[w] = sizes.length;
          members++;
          if (w === v) break;
        }
        sizes.push(members);
      }
      if (path.length > 0) low[path[path.length - 1]] = Math.min(low[path[path.length - 1]], low[v]);
    }
  }
  return { of, size: Int32Array.from(sizes) };
}
