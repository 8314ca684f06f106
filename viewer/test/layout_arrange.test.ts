import assert from "node:assert/strict";
import { test } from "node:test";
import { arrange } from "../src/layout/arrange";
import { newWork, type Arrangement, type Flow } from "../src/layout/flow";
import { random } from "./support/models";

interface Spec {
  readonly n: number;
  readonly edges: readonly (readonly [number, number])[];
  readonly size?: (i: number) => readonly [number, number];
  readonly ins?: readonly (readonly number[])[];
  readonly outs?: readonly number[];
}

function flowOf(s: Spec): Flow {
  const ins = s.ins ?? [];
  const outs = s.outs ?? [];
  const n = s.n + ins.length + outs.length;
  const edges: (readonly [number, number])[] = [...s.edges];
  ins.forEach((to, k) => to.forEach((t) => edges.push([s.n + k, t])));
  outs.forEach((from, k) => edges.push([from, s.n + ins.length + k]));
  const kind = new Uint8Array(n);
  kind.fill(1, s.n, s.n + ins.length);
  kind.fill(2, s.n + ins.length);
  const w = new Float32Array(n);
  const h = new Float32Array(n);
  for (let i = 0; i < s.n; i++) [w[i], h[i]] = s.size ? s.size(i) : [100, 36];
  const m = edges.length;
  return {
    n,
    kind,
    w,
    h,
    axis: w.map((v) => v / 2),
    top: new Float32Array(n),
    bottom: h.slice(),
    stem: new Float32Array(n),
    m,
    signW: new Float32Array(n).fill(70),
    signH: new Float32Array(n).fill(18),
    src: Int32Array.from(edges, (e) => e[0]),
    dst: Int32Array.from(edges, (e) => e[1]),
    leave: new Float32Array(m).fill(NaN),
    enter: new Float32Array(m).fill(NaN),
    net: Int32Array.from(edges, (e) => e[0]),
    portAt: null,
    careful: true,
    loose: false,
  };
}

const lay = (f: Flow, height = 1e7): Arrangement => arrange(f, { width: 1.7 * height, height, share: 1 }, newWork());
const chain = (n: number): (readonly [number, number])[] =>
  Array.from({ length: n - 1 }, (_, i) => [i, i + 1] as const);

function randomFlow(seed: number, n: number): Flow {
  const r = random(seed);
  const edges: (readonly [number, number])[] = [];
  for (let v = 1; v < n; v++) {
    const k = 1 + Math.floor(r() * 2.3);
    for (let i = 0; i < k; i++) edges.push([Math.floor(r() < 0.75 ? Math.max(0, v - 1 - r() * 6) : r() * v), v]);
  }
  const sizes = Array.from({ length: n }, () => [60 + Math.floor(r() * 200), r() < 0.1 ? 240 : 36] as const);
  return flowOf({ n, edges, size: (i) => sizes[i], ins: [[0], [Math.floor(n / 2), n - 1]], outs: [n - 1] });
}

function assertNoOverlap(f: Flow, a: Arrangement): void {
  const boxes = [...Array(f.n).keys()].filter((v) => f.kind[v] === 0).sort((p, q) => a.y[p] - a.y[q]);
  for (let i = 0; i < boxes.length; i++) {
    const p = boxes[i];
    assert.ok(
      a.x[p] >= -0.5 && a.y[p] >= -0.5 && a.x[p] + f.w[p] <= a.width + 0.5 && a.y[p] + f.h[p] <= a.height + 0.5,
      `box ${p} outside`,
    );
    for (let j = i + 1; j < boxes.length && a.y[boxes[j]] < a.y[p] + f.h[p]; j++) {
      const q = boxes[j];
      const apart = a.x[p] + f.w[p] <= a.x[q] + 0.01 || a.x[q] + f.w[q] <= a.x[p] + 0.01;
      assert.ok(apart, `boxes ${p} and ${q} overlap`);
    }
  }
}

/** Points of edge e. */
function path(a: Arrangement, e: number): { x: number; y: number; bend: number }[] {
  const out = [];
  for (let i = a.pathStart[e]; i < a.pathStart[e + 1]; i++)
    out.push({ x: a.points[3 * i], y: a.points[3 * i + 1], bend: a.points[3 * i + 2] });
  return out;
}

/** Straight pieces of edges pass no box: vertical pieces are checked against every box but the edge's own. */
function assertClear(f: Flow, a: Arrangement): void {
  for (let e = 0; e < f.m; e++) {
    const p = path(a, e);
    for (let i = 1; i < p.length; i++) {
      if (Math.abs(p[i].x - p[i - 1].x) > 0.01) continue;
      const y0 = Math.min(p[i].y, p[i - 1].y) + 0.5;
      const y1 = Math.max(p[i].y, p[i - 1].y) - 0.5;
      for (let v = 0; v < f.n; v++) {
        if (f.kind[v] !== 0 || v === f.src[e] || v === f.dst[e]) continue;
        const inside = p[i].x > a.x[v] + 0.5 && p[i].x < a.x[v] + f.w[v] - 0.5 && y1 > a.y[v] && y0 < a.y[v] + f.h[v];
        assert.ok(!inside, `edge ${e} runs through box ${v}`);
      }
    }
  }
}

test("boxes never overlap and lie inside the drawing", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const f = randomFlow(seed, 5 + seed * 3);
    assertNoOverlap(f, lay(f));
    assertNoOverlap(f, lay(f, 300));
  }
});

test("edges run downwards without a break, from their source's lower to their target's upper border", () => {
  for (let seed = 1; seed <= 30; seed++) {
    const f = randomFlow(seed, 10 + seed * 2);
    const a = lay(f);
    for (let e = 0; e < f.m; e++) {
      const p = path(a, e);
      for (let i = 1; i < p.length; i++) {
        assert.ok(p[i].y >= p[i - 1].y - 0.01, `edge ${e} of seed ${seed} runs up`);
        assert.equal(p[i].bend, 0);
      }
      const [s, t] = [f.src[e], f.dst[e]];
      if (f.kind[s] === 0)
        assert.ok(Math.abs(p[0].y - (a.y[s] + f.h[s])) < 0.6 && p[0].x >= a.x[s] && p[0].x <= a.x[s] + f.w[s]);
      const end = p[p.length - 1];
      if (f.kind[t] === 0) assert.ok(Math.abs(end.y - a.y[t]) < 0.6 && end.x >= a.x[t] && end.x <= a.x[t] + f.w[t]);
    }
  }
});

test("no edge runs through a box, in one column or several", () => {
  for (let seed = 1; seed <= 30; seed++) {
    const f = randomFlow(seed, 8 + seed * 3);
    assertClear(f, lay(f));
    assertClear(f, lay(f, 300));
  }
});

test("the same input gives the same drawing", () => {
  const f = randomFlow(7, 120);
  const [a, b] = [lay(f, 400), lay(f, 400)];
  assert.deepEqual([...a.x, ...a.y, ...a.points], [...b.x, ...b.y, ...b.points]);
});

test("independent branches keep the order they were given in", () => {
  const branches = 6;
  const edges: (readonly [number, number])[] = [];
  for (let b = 0; b < branches; b++)
    edges.push([0, 1 + b], [1 + b, 1 + branches + b], [1 + branches + b, 1 + 2 * branches]);
  const a = lay(flowOf({ n: 2 + 2 * branches, edges }));
  for (let b = 1; b < branches; b++) {
    assert.ok(a.x[1 + b] > a.x[b], "first row");
    assert.ok(a.x[1 + branches + b] > a.x[branches + b], "second row");
  }
});

test("a chain is straight", () => {
  const f = flowOf({ n: 20, edges: [...chain(20), [0, 6], [6, 12]] });
  const a = lay(f);
  for (let i = 1; i < 20; i++) assert.ok(Math.abs(a.x[i] - a.x[0]) < 0.01, `box ${i} is off the line`);
});

test("a chain with one long skip edge sends it down a lane beside the boxes", () => {
  const f = flowOf({ n: 40, edges: [...chain(40), [0, 39]] });
  const a = lay(f);
  const p = path(a, 39);
  assert.ok(p.length <= 8, "a lane has a handful of points, not one for each row");
  const lane = p.filter((q) => q.x > a.x[0] + 100 || q.x < a.x[0]);
  assert.ok(lane.length >= 2);
  assertClear(f, a);
});

test("a long chain wraps into columns that fit a window", () => {
  const f = flowOf({ n: 200, edges: chain(200) });
  const one = lay(f);
  const wrapped = lay(f, 500);
  assert.ok(one.height > 20 * one.width);
  const ratio = wrapped.width / wrapped.height;
  assert.ok(ratio > 1 && ratio < 3, `aspect ${ratio}`);
  assertNoOverlap(f, wrapped);
  assertClear(f, wrapped);
});

test("a very wide rank becomes a field", () => {
  const n = 192;
  const edges: (readonly [number, number])[] = [];
  for (let i = 1; i <= n; i++) edges.push([0, i], [i, n + 1]);
  const f = flowOf({ n: n + 2, edges });
  const a = lay(f);
  assert.ok(a.width < 5000, `width ${a.width}`);
  assertNoOverlap(f, a);
  assertClear(f, a);
});

test("cycles are drawn, not followed", () => {
  const f = flowOf({ n: 6, edges: [...chain(6), [5, 1], [3, 2]] });
  const a = lay(f);
  assertNoOverlap(f, a);
  for (let i = 1; i < 6; i++) assert.ok(a.y[i] > a.y[i - 1]);
});

test("200,000 blocks in a chain need no stack", () => {
  const f = flowOf({ n: 200_000, edges: chain(200_000) });
  const a = lay(f, 500);
  assert.ok(a.width > 0 && a.height > 0);
});

test("work grows with the graph, also when one tensor is read everywhere", () => {
  for (const n of [2_000, 20_000]) {
    const edges: (readonly [number, number])[] = chain(n);
    for (let i = 10; i < n; i += 10) edges.push([0, i]); // a mask
    for (let i = 0; i < n / 2; i += 7) edges.push([i, n - 1 - i]); // nested skips, as in a U-Net
    const work = newWork();
    arrange(flowOf({ n, edges }), { width: 1.7e7, height: 1e7, share: 1 }, work);
    const steps = work.ranks + work.sweeps + work.lanes + work.dummies;
    assert.ok(steps < 14 * (n + edges.length), `${steps} steps for ${n} blocks and ${edges.length} edges`);
  }
});

test("edges of a field run between its boxes and cross nothing", () => {
  const experts = 24;
  const edges: (readonly [number, number])[] = [];
  for (let k = 1; k <= experts; k++) edges.push([0, k], [k, experts + 1]);
  const f = flowOf({ n: experts + 2, edges });
  const a = arrange(f, { width: 980, height: 640, share: 1 }, newWork());
  const rows = new Set([...a.y.slice(1, experts + 1)]);
  assert.ok(rows.size > 1, "24 boxes stand in several rows");
  assert.equal(a.tangles, 0);
  assertNoOverlap(f, a);
  assertClear(f, a);
  const [low, high] = [Math.min(...a.x), Math.max(...a.x) + 100];
  for (let e = 0; e < f.m; e++)
    for (const p of path(a, e)) assert.ok(p.x > low - 40 && p.x < high + 40, "no lane beside the field");
});

test("a side input gives way: the chain that it joins stays straight", () => {
  const edges: (readonly [number, number])[] = [...chain(8)];
  for (let k = 0; k < 6; k++) edges.push([8 + k, k + 2]);
  const a = lay(flowOf({ n: 14, edges }));
  for (let i = 1; i < 8; i++) assert.ok(Math.abs(a.x[i] - a.x[0]) < 0.01, `box ${i} is off the line`);
});

test("the edges of a tensor part early where that saves a crossing", () => {
  // Two makers, two readers of both: one maker stands between the edges of the other.
  const laid = lay(
    flowOf({
      n: 4,
      edges: [
        [0, 1],
        [0, 2],
        [1, 3],
        [2, 3],
      ],
      ins: [[1, 2]],
      outs: [3],
    }),
  );
  assert.equal(laid.tangles, 0);
});

test("what hangs on constants alone stands left of the chain that it feeds, skips at the right", () => {
  // 0 → 1 → 2 → 3, 4 feeds 2 (beside 1), 5 feeds 3 (beside 2); 0 is read by 3 again.
  const laid = lay(
    flowOf({
      n: 6,
      edges: [
        [0, 1],
        [1, 2],
        [4, 2],
        [2, 3],
        [5, 3],
        [0, 3],
      ],
    }),
  );
  assert.ok(laid.x[4] < laid.x[1] && laid.x[5] < laid.x[2], "feeds at the left");
  const skip = laid.points.subarray(3 * laid.pathStart[5], 3 * laid.pathStart[6]);
  const right = Math.max(...Array.from(skip).filter((_, i) => i % 3 === 0));
  assert.ok(right > laid.x[2] + 100 && right < laid.x[2] + 100 + 30, "the skip hugs its block");
});

test("what follows a wide group stands under the port that it hangs on, if the drawing stays as wide", () => {
  const flow = flowOf({ n: 4, edges: chain(4), size: (i) => (i === 1 ? [600, 200] : [100, 36]) });
  flow.leave[1] = 220; // the group's output is far at the right of its middle
  const laid = lay(flow);
  assert.equal(laid.x[2] + 50, laid.x[1] + 300 + 220);
  assert.equal(laid.x[3], laid.x[2]);
  assert.equal(laid.width, 600);
});

test("edges that step aside a little take no more room than straight ones and their shapes need", () => {
  const laid = (wide: number): Arrangement => {
    const flow = flowOf({ n: 3, edges: chain(3), size: () => [100, 36] });
    flow.stem.fill(18, 0, 2);
    flow.leave.fill(0);
    flow.enter.fill(0);
    flow.enter[0] = wide; // the first edge ends this far beside where it begins, if the boxes stand in line
    flow.leave[1] = wide;
    return lay(flow);
  };
  const rise = (a: Arrangement): number => a.y[1] - a.y[0];
  assert.equal(rise(laid(0)), 36 + 24);
  assert.ok(rise(laid(200)) <= 36 + 18 + 24 + 12, "far aside: a gap below the shape");
});

test("a box that is lower than its row has its shape beside it, not below the row", () => {
  const sizes = [
    [100, 36],
    [100, 36],
    [200, 300],
    [100, 36],
  ] as const;
  const flow = flowOf({
    n: 4,
    edges: [
      [0, 1],
      [0, 2],
      [1, 3],
      [2, 3],
    ],
    size: (i) => sizes[i],
  });
  const plain = lay(flow);
  flow.stem[1] = 18;
  assert.equal(lay(flow).height, plain.height);
});
