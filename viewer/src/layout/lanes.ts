/** Where edges that skip rows run: lanes that hug the outline of the rows they pass. */

/** Largest value over ranges of rows, and raising of ranges; both O(log rows), so a lane costs no row walk. */
export class Outline {
  private readonly max: Float64Array;
  private readonly raise: Float64Array;
  private readonly size: number;

  constructor(values: ArrayLike<number>) {
    let size = 1;
    while (size < values.length) size *= 2;
    this.size = size;
    this.max = new Float64Array(2 * size).fill(-Infinity);
    this.raise = new Float64Array(2 * size).fill(-Infinity);
    for (let i = 0; i < values.length; i++) this.max[size + i] = values[i];
    for (let i = size - 1; i > 0; i--) this.max[i] = Math.max(this.max[2 * i], this.max[2 * i + 1]);
  }

  /** The largest value of rows a..b (both in). */
  over(a: number, b: number): number {
    let out = -Infinity;
    let l = a + this.size;
    let r = b + this.size;
    // Raised values stand at the ancestors of the two ends.
    for (let i = l >> 1; i > 0; i >>= 1) out = Math.max(out, this.raise[i]);
    for (let i = r >> 1; i > 0; i >>= 1) out = Math.max(out, this.raise[i]);
    for (; l <= r; l >>= 1, r >>= 1) {
      if (l & 1) out = Math.max(out, this.max[l++]);
      if (!(r & 1)) out = Math.max(out, this.max[r--]);
      if (l > r) break;
    }
    return out;
  }

  /** Rows a..b become at least v. */
  lift(a: number, b: number, v: number): void {
    let l = a + this.size;
    let r = b + this.size;
    const l0 = l;
    const r0 = r;
    for (; l <= r; l >>= 1, r >>= 1) {
      if (l & 1) this.put(l++, v);
      if (!(r & 1)) this.put(r--, v);
      if (l > r) break;
    }
    for (const start of [l0, r0]) {
      for (let i = start >> 1; i > 0; i >>= 1) {
        this.max[i] = Math.max(this.raise[i], this.max[2 * i], this.max[2 * i + 1]);
      }
    }
  }

  private put(i: number, v: number): void {
    if (v > this.max[i]) this.max[i] = v;
    if (i < this.size && v > this.raise[i]) this.raise[i] = v;
  }
}

/** A lane wanted: rows `from`..`to` are passed. What skips forward runs at the right, what runs back at the left: always. */
export interface LaneWish {
  readonly from: number;
  readonly to: number;
  readonly back: boolean;
}

export const LANE_GAP = 12;

/**
 * An x for each wish. Short lanes first, so that they lie inside long ones. `left` and `right` are the
 * rows' outlines; the lanes widen them.
 */
export function assignLanes(wishes: readonly LaneWish[], left: Float64Array, right: Float64Array): Float64Array {
  const out = new Float64Array(wishes.length);
  const order = wishes.map((_, i) => i);
  order.sort(
    (a, b) =>
      wishes[a].to - wishes[a].from - (wishes[b].to - wishes[b].from) || wishes[a].from - wishes[b].from || a - b,
  );
  const rightMost = new Outline(right);
  const leftMost = new Outline(left.map((v) => -v));
  for (const i of order) {
    const { from, to, back } = wishes[i];
    out[i] = back ? -leftMost.over(from, to) - LANE_GAP : rightMost.over(from, to) + LANE_GAP;
    if (back) leftMost.lift(from, to, -out[i]);
    else rightMost.lift(from, to, out[i]);
  }
  for (let r = 0; r < right.length; r++) {
    right[r] = rightMost.over(r, r);
    left[r] = -leftMost.over(r, r);
  }
  return out;
}
