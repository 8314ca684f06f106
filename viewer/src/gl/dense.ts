/** How thousands of boxes smaller than a pixel are shown: as a grid of tones, made once for each zoom step. */

import { blend, type Rgba } from "../base/color";
import { FAMILIES, FAMILY_WEIGHT } from "../layout/family";
import type { GroupView } from "./scene";
import type { Theme } from "./theme";

/** Squares of `side` world units that hold something, with the colour they have from afar. */
export interface DenseGrid {
  readonly side: number;
  readonly x: Int32Array;
  readonly y: Int32Array;
  readonly color: Uint32Array;
}

interface Key {
  readonly theme: Theme;
  readonly fill: Uint32Array | undefined;
  readonly level: number;
}

const known = new WeakMap<GroupView, { key: Key; grid: DenseGrid }[]>();

/** A group with fewer members than this is drawn box by box at any zoom. */
export const DENSE_FROM = 4000;

/** The grid whose squares are 3 to 6 pixels wide at this scale. */
export function denseGrid(view: GroupView, scale: number, theme: Theme, fill: Uint32Array | undefined): DenseGrid {
  const level = Math.ceil(Math.log2(3 / scale));
  let list = known.get(view);
  if (!list) known.set(view, (list = []));
  const found = list.find((e) => e.key.level === level && e.key.theme === theme && e.key.fill === fill);
  if (found) return found.grid;
  const grid = make(view, 2 ** level, theme, fill);
  list.push({ key: { theme, fill, level }, grid });
  if (list.length > 8) list.shift();
  return grid;
}

function make(view: GroupView, side: number, theme: Theme, fill: Uint32Array | undefined): DenseGrid {
  const { shape, batch, first, count } = view;
  const cols = Math.ceil(shape.w / side) + 1;
  const cells = new Map<number, number>();
  const F = FAMILIES.length;
  let cover = new Float32Array(1024);
  let votes = new Float32Array(1024 * F);
  let own = new Uint32Array(1024);
  for (let i = 0; i < count; i++) {
    const w = shape.rect[4 * i + 2];
    if (w === 0) continue;
    const h = shape.rect[4 * i + 3];
    const key =
      Math.floor((shape.rect[4 * i + 1] + h / 2) / side) * cols + Math.floor((shape.rect[4 * i] + w / 2) / side);
    let c = cells.get(key);
    if (c === undefined) {
      cells.set(key, (c = cells.size));
      if (c === cover.length) {
        cover = grow(cover, c * 2);
        votes = grow(votes, c * 2 * F);
        const wider = new Uint32Array(c * 2);
        wider.set(own);
        own = wider;
      }
    }
    cover[c] += (w * h) / (side * side);
    votes[c * F + batch.family[first + i]] += 0.2 + FAMILY_WEIGHT[batch.family[first + i]];
    const given = fill ? fill[batch.item[first + i]] : 0;
    if (given) own[c] = given;
  }
  const n = cells.size;
  const x = new Int32Array(n);
  const y = new Int32Array(n);
  const color = new Uint32Array(n);
  for (const [key, c] of cells) {
    x[c] = key % cols;
    y[c] = Math.floor(key / cols);
    let best = 0;
    for (let f = 1; f < F; f++) if (votes[c * F + f] > votes[c * F + best]) best = f;
    const tone: Rgba = own[c] || blend(theme.familyFill[best], theme.familyEdge[best], 0.65);
    color[c] = blend(theme.paper, tone, Math.min(1, 0.25 + cover[c]));
  }
  return { side, x, y, color };
}

function grow(a: Float32Array<ArrayBuffer>, size: number): Float32Array<ArrayBuffer> {
  const out = new Float32Array(size);
  out.set(a);
  return out;
}
