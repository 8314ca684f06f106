/** Which nodes of two graphs are the same one: by recorded id in one graph; else by name in its module, then by module, op and shape, then by name alone and by neighbours. */

import type { Signature } from "./likeness";

export interface Difference {
  /** Node numbers; -1 on the side that has none. */
  readonly left: number;
  readonly right: number;
  readonly title: string;
  readonly path: string;
  /** "" for what only one side has; else what changed. */
  readonly what: string;
}

export interface Matched {
  /** Right node of each left node, -1 where there is none; and the other way round. */
  readonly toRight: Int32Array;
  readonly toLeft: Int32Array;
  /** 1 added, 2 removed, 3 changed, by node. */
  readonly left: Uint8Array;
  readonly right: Uint8Array;
  readonly onlyLeft: number;
  readonly onlyRight: number;
  readonly changed: number;
  /** In the order of the right graph, what is gone where it stood on the left; the first of many. */
  readonly list: readonly Difference[];
}

const [ADDED, REMOVED, CHANGED] = [1, 2, 3];
const MOST = 5000;
/** Values that are no work of the module that they stand in. */
const GIVEN = new Set(["weight", "input"]);

export function match(a: Signature, b: Signature): Matched {
  const toRight = new Int32Array(a.keys.length).fill(-1);
  const toLeft = new Int32Array(b.keys.length).fill(-1);
  const pair = (x: number, y: number): void => {
    toRight[x] = y;
    toLeft[y] = x;
  };
  const byKey = (of: (s: Signature, n: number) => string, ok: (x: number, y: number) => boolean = () => true): void => {
    const waiting = new Map<string, number[]>();
    for (let y = b.keys.length - 1; y >= 0; y--) {
      const key = toLeft[y] < 0 ? of(b, y) : "";
      if (!key) continue;
      const list = waiting.get(key);
      if (list) list.push(y);
      else waiting.set(key, [y]);
    }
    for (let x = 0; x < a.keys.length; x++) {
      const list = toRight[x] < 0 ? waiting.get(of(a, x)) : undefined;
      const y = list?.at(-1);
      if (y !== undefined && ok(x, y)) {
        list?.pop();
        pair(x, y);
      }
    }
  };
  // Many files leave the types of intermediate tensors out; what is not said does not differ.
  const alike = (x: number, y: number): boolean => !a.shapes[x] || !b.shapes[y] || a.shapes[x] === b.shapes[y];
  const named = (x: number, y: number): boolean =>
    a.kinds[x] === b.kinds[y] || (a.shapes[x] !== "" && a.shapes[x] === b.shapes[y]);
  // Exporters number names ("relu", "relu_1"): one that stands in another module now is another op.
  const placed = (x: number, y: number): boolean => !a.paths[x] || !b.paths[y] || a.paths[x] === b.paths[y];
  byKey(
    (s, n) => s.keys[n],
    (x, y) => a.sameGraph || (named(x, y) && placed(x, y)),
  );
  if (!a.sameGraph) {
    byKey((s, n) => `${s.paths[n]}|${s.kinds[n]}|${s.shapes[n]}`);
    byKey((s, n) => (s.paths[n] ? `${s.paths[n]}|${s.kinds[n]}` : ""), alike);
    byKey((s, n) => (s.paths[n] && s.shapes[n] && !GIVEN.has(s.kinds[n]) ? `${s.paths[n]}|${s.shapes[n]}` : ""));
    byKey((s, n) => s.keys[n], named);
    neighbours(a, b, toRight, toLeft, pair);
    byKey((s, n) => `${s.kinds[n]}|${s.shapes[n]}`, placed);
    neighbours(a, b, toRight, toLeft, pair);
  }
  return described(a, b, toRight, toLeft);
}

/** Operands of matched nodes are the same where op or shape is; followed both ways until nothing is new. */
function neighbours(
  a: Signature,
  b: Signature,
  toRight: Int32Array,
  toLeft: Int32Array,
  pair: (x: number, y: number) => void,
): void {
  const todo: number[] = [];
  for (let x = toRight.length - 1; x >= 0; x--) if (toRight[x] >= 0) todo.push(x);
  while (todo.length > 0) {
    const x = todo.pop() as number;
    const y = toRight[x];
    const free = (s: Signature, n: number, taken: Int32Array): number[] =>
      Array.from(s.inputs.subarray(s.offsets[n], s.offsets[n + 1])).filter((i) => i >= 0 && taken[i] < 0);
    const [mine, theirs] = [free(a, x, toRight), free(b, y, toLeft)];
    for (const i of new Set(mine)) {
      const j = theirs.find(
        (t) =>
          toLeft[t] < 0 && a.kinds[i] === b.kinds[t] && (!a.shapes[i] || !b.shapes[t] || a.shapes[i] === b.shapes[t]),
      );
      if (j === undefined) continue;
      pair(i, j);
      todo.push(i);
    }
  }
}

function described(a: Signature, b: Signature, toRight: Int32Array, toLeft: Int32Array): Matched {
  const left = new Uint8Array(toRight.length);
  const right = new Uint8Array(toLeft.length);
  const gone: Difference[] = [];
  const list: Difference[] = [];
  let changed = 0;
  for (let x = 0; x < left.length; x++) {
    if (toRight[x] >= 0) continue;
    left[x] = REMOVED;
    gone.push({ left: x, right: -1, title: a.titles[x], path: a.paths[x], what: "" });
  }
  let onlyRight = 0;
  for (let y = 0; y < right.length; y++) {
    const x = toLeft[y];
    if (x < 0) {
      right[y] = ADDED;
      onlyRight++;
      list.push({ left: -1, right: y, title: b.titles[y], path: b.paths[y], what: "" });
      continue;
    }
    const what = differs(a, b, x, y, toRight);
    if (!what) continue;
    left[x] = right[y] = CHANGED;
    changed++;
    list.push({ left: x, right: y, title: b.titles[y], path: b.paths[y], what });
  }
  return {
    toRight,
    toLeft,
    left,
    right,
    onlyLeft: gone.length,
    onlyRight,
    changed,
    list: gone.concat(list).slice(0, MOST),
  };
}

/** What two nodes that are the same one do not share. Attributes of two dialects cannot be compared, those of one can. */
function differs(a: Signature, b: Signature, x: number, y: number, toRight: Int32Array): string {
  const out: string[] = [];
  if (a.kinds[x] !== b.kinds[y]) out.push("op");
  if (a.shapes[x] && b.shapes[y] && a.shapes[x] !== b.shapes[y]) out.push("type");
  if (a.ops[x] === b.ops[y]) {
    if (a.attrs[x] !== b.attrs[y] && a.shapes[x] === b.shapes[y]) out.push("attributes");
    const n = a.offsets[x + 1] - a.offsets[x];
    let same = n === b.offsets[y + 1] - b.offsets[y];
    for (let i = 0; same && i < n; i++) {
      const from = a.inputs[a.offsets[x] + i];
      same = (from < 0 ? -1 : toRight[from]) === b.inputs[b.offsets[y] + i];
    }
    if (!same) out.push("inputs");
  }
  return out.join(", ");
}
