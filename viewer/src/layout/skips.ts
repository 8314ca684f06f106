/** Skip connections on the right of the block that they pass, where that costs no crossing. */

import { crossings, number, type Rows } from "./rows";

/** A skip is a chain of bends from a cell that also feeds the block; it is moved past the cells of the block. */
export function skipsRight(g: Rows, at: Int32Array): void {
  let least = crossings(g);
  const rightmost = (v: number, r: number): number => {
    let out = -1;
    for (let i = g.down.offsets[v]; i < g.down.offsets[v + 1]; i++) {
      const w = g.down.values[i];
      if (w < g.boxes && g.row[w] === r && (out < 0 || at[w] > at[out])) out = w;
    }
    return out;
  };
  let tries = 200;
  for (let v = 0; v < g.boxes && tries > 0; v++) {
    for (let i = g.down.offsets[v]; i < g.down.offsets[v + 1] && tries > 0; i++) {
      const chain: number[] = [];
      const beside: number[] = [];
      let block = rightmost(v, g.row[v] + 1);
      for (let c = g.down.values[i]; c >= g.boxes && block >= 0; c = g.down.values[g.down.offsets[c]]) {
        if (at[c] > at[block]) break;
        chain.push(c);
        beside.push(block);
        block = rightmost(block, g.row[block] + 1);
      }
      if (chain.length === 0) continue;
      tries--;
      const before = chain.map((c) => g.list.values.slice(g.list.offsets[g.row[c]], g.list.offsets[g.row[c] + 1]));
      chain.forEach((c, k) => moveBehind(g, c, beside[k], at));
      const now = crossings(g);
      if (now <= least) least = now;
      else {
        chain.forEach((c, k) => {
          g.list.values.set(before[k], g.list.offsets[g.row[c]]);
          number(g, g.row[c], at);
        });
      }
    }
  }
}

function moveBehind(g: Rows, cell: number, other: number, at: Int32Array): void {
  const a = g.list.offsets[g.row[cell]];
  for (let i = a + at[cell]; i < a + at[other]; i++) g.list.values[i] = g.list.values[i + 1];
  g.list.values[a + at[other]] = cell;
  number(g, g.row[cell], at);
}
