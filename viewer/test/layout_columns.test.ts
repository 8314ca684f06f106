import assert from "node:assert/strict";
import { test } from "node:test";
import { arrange } from "../src/layout/arrange";
import { newWork, type Arrangement, type Flow } from "../src/layout/flow";

type Edge = readonly [number, number];

/** Boxes of 100 x 36; every edge carries a tensor of its own. */
function flowOf(n: number, edges: readonly Edge[]): Flow {
  const m = edges.length;
  const all = (v: number): Float32Array => new Float32Array(n).fill(v);
  return {
    n,
    kind: new Uint8Array(n),
    w: all(100),
    h: all(36),
    axis: all(50),
    top: all(0),
    bottom: all(36),
    stem: all(0),
    signW: all(70),
    signH: all(18),
    m,
    src: Int32Array.from(edges, (e) => e[0]),
    dst: Int32Array.from(edges, (e) => e[1]),
    leave: new Float32Array(m).fill(NaN),
    enter: new Float32Array(m).fill(NaN),
    net: Int32Array.from(edges, (_, i) => i),
    portAt: null,
    careful: true,
    loose: false,
  };
}

const chain = (n: number): Edge[] => Array.from({ length: n - 1 }, (_, i) => [i, i + 1] as const);
const lay = (f: Flow, height: number): Arrangement => arrange(f, { width: 980, height, share: 1 }, newWork());
const columnsOf = (a: Arrangement, n: number): number[] => {
  const by = new Map<number, number>();
  for (let v = 0; v < n; v++) by.set(Math.round(a.x[v]), (by.get(Math.round(a.x[v])) ?? 0) + 1);
  return [...by.values()];
};

test("columns are as even as their number lets them be: none is left with the rest", () => {
  for (const n of [74, 97, 203]) {
    const columns = columnsOf(lay(flowOf(n, chain(n)), 400), n);
    assert.ok(columns.length > 2, `${columns}`);
    const even = n / columns.length;
    for (const count of columns) assert.ok(Math.abs(count - even) <= 0.2 * even + 1, `${n}: ${columns}`);
  }
});

test("a column that does not fit by a little comes closer together and stays one", () => {
  const n = 16; // 16 rows of 60 in one column are 0.62 of a window of 640 and a little more
  const loose = lay(flowOf(n, chain(n)), 2000);
  const close = lay(flowOf(n, chain(n)), 640);
  assert.deepEqual(columnsOf(close, n), [n]);
  assert.equal(loose.y[1] - loose.y[0], 60);
  assert.ok(close.y[1] - close.y[0] < 60 && close.y[1] - close.y[0] >= 46, `${close.y[1]}`);
});

/** A chain with skips from one side of its middle to the other, as a U-Net has them. */
const net = (n: number, skips: readonly Edge[]): Flow => flowOf(n, [...chain(n), ...skips]);
const NESTED: Edge[] = [
  [1, 22],
  [3, 20],
  [5, 18],
  [7, 16],
];

test("nested skips around the middle make a U: down at the left, up at the right, each skip straight across", () => {
  const a = lay(net(24, NESTED), 640);
  assert.equal(a.signs.length, 0, "nothing wraps");
  for (let v = 1; v <= 7; v++) assert.ok(a.y[v] > a.y[v - 1] && a.x[v] === a.x[0], `box ${v} goes down`);
  for (let v = 17; v < 24; v++) assert.ok(a.y[v] < a.y[v - 1] && a.x[v] > a.x[0] + 100, `box ${v} goes up`);
  NESTED.forEach(([s, t], k) => {
    const e = 23 + k;
    assert.equal(a.y[s], a.y[t], "both ends at one height");
    const p = a.points.subarray(3 * a.pathStart[e], 3 * a.pathStart[e + 1]);
    assert.deepEqual([...p], [a.x[s] + 100, a.y[s] + 18, 0, a.x[t], a.y[t] + 18, 0]);
  });
  for (let v = 0; v < 24; v++)
    for (let u = 0; u < v; u++)
      assert.ok(Math.abs(a.x[u] - a.x[v]) >= 100 || Math.abs(a.y[u] - a.y[v]) >= 36 + 10, `${u} and ${v} lie apart`);
  assert.ok(a.points.every((v, i) => i % 3 !== 1 || (v >= 0 && v <= a.height)));
});

test("skips that are not nested, or too few, make no U", () => {
  const bent = (skips: readonly Edge[]): boolean => {
    const a = lay(net(24, skips), 640);
    return a.y.some((y, v) => v > 0 && y < a.y[v - 1] && a.y[v - 1] - y < 100);
  };
  assert.ok(bent(NESTED));
  assert.ok(!bent(NESTED.slice(0, 2)));
  assert.ok(
    !bent([
      [1, 16],
      [3, 18],
      [5, 20],
      [7, 22],
    ]),
    "parallel skips cross when they are bent",
  );
});

test("tensors leave a box at points of their own, on the side that they go to", () => {
  // 0 makes three tensors, for 1, 2 and 3, which stand side by side.
  const edges: Edge[] = [
    [0, 1],
    [0, 2],
    [0, 3],
  ];
  const f = flowOf(4, edges);
  const leaves = (a: Arrangement): number[] => edges.map((_, e) => a.points[3 * a.pathStart[e]] - a.x[0]);
  const [p, q, r] = leaves(lay(f, 640));
  assert.ok(p < q && q < r && q === 50, `${[p, q, r]}`);
  f.net.fill(0);
  assert.deepEqual(leaves(lay(f, 640)), [50, 50, 50], "one tensor leaves at one point");
});

test("what is too high by itself is no reason to put the rest into columns of its own", () => {
  const n = 5;
  const f = flowOf(n, chain(n));
  f.h[2] = f.bottom[2] = 1100; // an unfolded group between two boxes above and two below
  assert.deepEqual(lay(f, 640).signs, []);
});

test("groups may be unfolded on both sides of a U: edges run around those on the way up, into their ports", () => {
  const f = net(24, NESTED);
  const open = (v: number): void => {
    f.h[v] = f.bottom[v] = 200;
    for (let e = 0; e < f.m; e++) {
      if (f.src[e] === v) f.leave[e] = 20;
      if (f.dst[e] === v) f.enter[e] = -20;
    }
  };
  for (const v of [3, 16, 19]) open(v);
  const a = lay(f, 640);
  assert.equal(a.signs.length, 0);
  const path = (e: number): number[][] => {
    const out: number[][] = [];
    for (let i = a.pathStart[e]; i < a.pathStart[e + 1]; i++) out.push([...a.points.subarray(3 * i, 3 * i + 3)]);
    return out;
  };
  for (const [v, ins] of [
    [16, [15, 26]],
    [19, [18]],
  ] as const)
    for (const e of ins) assert.deepEqual(path(e).at(-1)?.slice(0, 2), [a.x[v] + 30, a.y[v]], `into ${v} from above`);
  assert.deepEqual(path(19)[0], [a.x[19] + 70, a.y[19] + 200, 0], "out of its lower border");
  assert.deepEqual(path(24).at(-1), [a.x[20], a.y[20] + 18, 0], "a skip of an unfolded group arrives at the side");
  for (let e = 0; e < f.m; e++) {
    const p = path(e);
    for (let i = 1; i < p.length; i++) {
      if (Math.abs(p[i][0] - p[i - 1][0]) > 0.01) continue;
      const [y0, y1] = [Math.min(p[i][1], p[i - 1][1]) + 0.5, Math.max(p[i][1], p[i - 1][1]) - 0.5];
      for (let v = 0; v < f.n; v++)
        assert.ok(
          v === f.src[e] && i === 1
            ? true
            : !(p[i][0] > a.x[v] && p[i][0] < a.x[v] + 100 && y1 > a.y[v] && y0 < a.y[v] + f.h[v]),
          `edge ${e} runs through ${v}`,
        );
    }
  }
  for (let e = 0; e < f.m; e++)
    for (const [x] of path(e)) assert.ok(x >= 0 && x <= a.width, `edge ${e} inside the drawing`);
});
