import assert from "node:assert/strict";
import { test } from "node:test";
import { Cancelled } from "../src/base/errors";
import { firstView } from "../src/engine/first_view";
import { Measure } from "../src/layout/measure";
import type { SceneUpdate } from "../src/layout/scene_update";
import { EACH, FOLDED, LayoutSession, OPEN } from "../src/layout/session";
import { EDGE } from "../src/layout/template";
import type { Hierarchy } from "../src/model/hierarchy";
import { groupTitle } from "../src/model/labels";
import { Scene } from "../src/gl/scene";
import type { NodeSpec } from "./support/glass";
import { load, transformer } from "./support/models";

const session = (h: Hierarchy, across = false): LayoutSession =>
  new LayoutSession(h, new Measure(), { across, width: 1000, height: 600 });
const find = (h: Hierarchy, title: string): number => {
  for (let g = 0; g < h.groups; g++) if (groupTitle(h, g) === title) return g;
  throw new Error(`no group ${title}`);
};

function assertSound(s: LayoutSession): void {
  for (const g of s.visibleGroups(false)) {
    const shape = s.shape(g);
    assert.ok(shape, `group ${g} has no shape`);
    const r = shape.rect;
    const n = shape.small.length;
    for (let i = 0; i < n; i++) {
      if (r[4 * i + 2] === 0) continue;
      assert.ok(
        r[4 * i] >= -0.6 &&
          r[4 * i + 1] >= -0.6 &&
          r[4 * i] + r[4 * i + 2] <= shape.w + 0.6 &&
          r[4 * i + 1] + r[4 * i + 3] <= shape.h + 0.6,
        "inside its group",
      );
      for (let j = i + 1; j < n; j++) {
        if (r[4 * j + 2] === 0) continue;
        const apart =
          r[4 * i] + r[4 * i + 2] <= r[4 * j] + 0.1 ||
          r[4 * j] + r[4 * j + 2] <= r[4 * i] + 0.1 ||
          r[4 * i + 1] + r[4 * i + 3] <= r[4 * j + 1] + 0.1 ||
          r[4 * j + 1] + r[4 * j + 3] <= r[4 * i + 1] + 0.1;
        assert.ok(apart, `members ${i} and ${j} of group ${g} overlap`);
      }
    }
  }
}

test("unfolding lays out the group and its ancestors, and nothing else", async () => {
  const h = await load(transformer(8));
  const s = session(h);
  s.setAll(true);
  await s.layOut();
  s.takeUpdate();
  s.setFold(find(h, "attn"), FOLDED);
  await s.layOut();
  const u = s.takeUpdate();
  const changed: string[] = [];
  for (let i = 0; i < u.groups.length; i += 3) changed.push(groupTitle(h, u.groups[i]));
  assert.deepEqual(changed.sort(), ["layers × 8", "layers.0", "test"].sort());
});

test("identical groups share one drawing", async () => {
  const h = await load(transformer(40));
  const s = session(h);
  s.setAll(true);
  await s.layOut();
  const u = s.takeUpdate();
  assert.ok(u.groups.length / 3 > 280, "all groups are shown");
  assert.ok(u.shapes.length < 30, `${u.shapes.length} drawings for ${u.groups.length / 3} groups`);
});

test("open, an identical run shows one of its members; with each, all", async () => {
  const h = await load(transformer(12));
  const s = session(h);
  const run = find(h, "layers × 12");
  s.setFold(run, OPEN);
  await s.layOut();
  assert.deepEqual(
    [...s.membersOf(run)].map((m) => (m >= h.nodes ? groupTitle(h, m - h.nodes) : "op")),
    ["norm1", "attn", "op", "norm2", "mlp", "op"],
  );
  const shape = s.shape(run);
  assert.ok(shape && shape.inAt.length === 2 && shape.outAt.length === 1, "x and the mask come in, x goes out");
  s.setFold(run, EACH);
  await s.layOut();
  assert.equal(s.membersOf(run).length, 12);
});

test("nothing overlaps: folded, unfolded, left to right, flat", async () => {
  const h = await load(transformer(6, 5));
  for (const across of [false, true]) {
    const s = session(h, across);
    await s.layOut();
    assertSound(s);
    s.setAll(true);
    await s.layOut();
    assertSound(s);
  }
  const s = session(h);
  s.flat = true;
  await s.layOut();
  const shape = s.shape(0);
  assert.ok(shape && shape.small.length === h.nodes);
});

test("a tensor that many far places read is named there, not drawn", async () => {
  const h = await load(transformer(12));
  const s = session(h);
  const run = find(h, "layers × 12");
  s.setFold(run, EACH);
  await s.layOut();
  const shape = s.shape(run);
  assert.ok(shape);
  assert.ok(shape.tagEdge.length >= 10, "a port at each use");
  let fromMask = 0;
  for (let e = 0; e < shape.edgeSrc.length; e++) if (shape.edgeKind[e] === EDGE && shape.edgeSrc[e] < 0) fromMask++;
  assert.ok(fromMask <= 3, `${fromMask} long edges are drawn`);
});

test("constants stand small beside their consumer", async () => {
  const h = await load(transformer(3));
  const s = session(h);
  s.setAll(true);
  await s.layOut();
  const q = find(h, "q");
  const shape = s.shape(q);
  assert.ok(shape);
  assert.deepEqual([...shape.small], [1, 0]);
  assert.ok(shape.rect[0] + shape.rect[2] <= shape.rect[4], "left of it");
});

test("the first view shows a model at a glance", async () => {
  for (const layers of [12, 200]) {
    const h = await load(transformer(layers));
    const s = session(h);
    await firstView(s, 1280, 640);
    const boxes = s.visibleGroups(false).reduce((n, g) => n + s.membersOf(g).length, 0);
    assert.ok(boxes >= 10 && boxes <= 80, `${boxes} boxes`);
    const shape = s.shape(0);
    assert.ok(shape && Math.min(1280 / shape.w, 640 / shape.h) > 0.7, "and it reads");
  }
});

test("a scene knows where every drawn item is, and that folded ones are not", async () => {
  const h = await load(transformer(4));
  const s = session(h);
  const scene = new Scene();
  const run = find(h, "layers × 4");
  const attn = find(h, "attn");
  s.setFold(run, EACH);
  s.setFold(find(h, "layers.0"), OPEN);
  s.setFold(attn, OPEN);
  await s.layOut();
  scene.apply(s.takeUpdate());
  const place = scene.place(h.nodes + attn);
  assert.ok(place);
  const inner = s.membersOf(attn)[0];
  const p = scene.place(inner);
  assert.ok(p && p.x >= place.x && p.y >= place.y && p.x + p.w <= place.x + place.w);
  s.setFold(attn, FOLDED);
  await s.layOut();
  const u: SceneUpdate = s.takeUpdate();
  scene.apply(u);
  assert.equal(scene.place(inner), null);
});

test("100,000 nodes unfold and flatten in steps that grow with the graph", async () => {
  const h = await load(transformer(7600));
  assert.ok(h.nodes > 100_000);
  const s = session(h);
  s.setAll(true);
  await s.layOut();
  const steps = (): number => s.work.ranks + s.work.sweeps + s.work.lanes + s.work.dummies;
  assert.ok(steps() < 10 * h.nodes, `${steps()} steps to unfold`);
  s.flat = true;
  await s.layOut();
  assert.ok(steps() < 60 * h.nodes, `${steps()} steps to flatten`);
});

test("flattening tells how far it is and can be called off", async () => {
  const h = await load(transformer(300));
  const s = session(h);
  s.flat = true;
  const seen: number[] = [];
  await assert.rejects(
    s.layOut({
      step: async (done) => {
        seen.push(done);
        if (done >= 3) throw new Cancelled();
      },
    }),
    Cancelled,
  );
  assert.deepEqual(seen, [0, 1, 2, 3]);
  await s.layOut();
  assert.ok(s.shape(0), "and started again");
});

test("groups turn their ports to where edges come from, so that none cross", async () => {
  const input = { op: "Input", kind: "source" };
  const product = { op: "Matmul", kind: "matmul" };
  const sum = { op: "Add", kind: "elementwise" };
  // A residual around attention whose mask comes from outside: with the ports of `self` as they come, two edges cross.
  const nodes = [
    { ...input, name: "x" },
    { ...input, name: "mask" },
    { ...product, inputs: [0], path: "layer/attention/self" },
    { ...sum, inputs: [2, 1], path: "layer/attention/self" },
    { ...product, inputs: [3], path: "layer/attention/output" },
    { ...sum, inputs: [4, 0], path: "layer/attention/output" },
    { ...product, inputs: [5], path: "layer/mlp" },
    { ...sum, inputs: [6, 5], path: "layer/mlp" },
  ];
  const h = await load({ nodes, inputs: [0, 1], outputs: [[7, 0]] });
  const s = session(h);
  s.setAll(true);
  await s.layOut();
  assertSound(s);
  for (const g of s.visibleGroups(false)) assert.equal(s.shape(g)?.tangles, 0, `edges cross in ${groupTitle(h, g)}`);
});

test("the drawing of a fold state does not depend on the states before", async () => {
  const h = await load(transformer(3));
  const drawn = (s: LayoutSession): number[] =>
    s.visibleGroups(false).flatMap((g) => [...(s.shape(g)?.rect ?? []), ...(s.shape(g)?.points ?? [])]);
  const [a, b] = [session(h), session(h)];
  for (const s of [a, b]) s.setAll(true);
  await a.layOut();
  a.setFold(find(h, "attn"), FOLDED);
  await a.layOut();
  b.setFold(find(h, "attn"), FOLDED);
  await b.layOut();
  assert.deepEqual(drawn(a), drawn(b));
});

test("a given value that would pass by a whole window is named at its reader; one nearby is drawn", async () => {
  const nodes: NodeSpec[] = [
    { op: "Input", kind: "source", name: "x" },
    { op: "Variable", kind: "source", name: "momentum", path: "state" },
    { op: "Variable", kind: "source", name: "variance", path: "state" },
    { op: "Norm", inputs: [1, 2], path: "state" },
    { op: "Scale", inputs: [0, 1, 2], path: "forward" },
  ];
  // Three groups of a column each, every one higher than the window.
  for (const path of ["forward", "middle", "backward"])
    for (let k = 0; k < 20; k++) nodes.push({ op: "Relu", inputs: [nodes.length - 1], path });
  const last = nodes.length - 1;
  nodes.push(
    { op: "Update", inputs: [last, 1, 2], path: "update" },
    { op: "Apply", inputs: [last + 1, 1, 2], path: "update" },
  );
  const h = await load({ nodes, inputs: [0], outputs: [[nodes.length - 1, 0]] });
  const s = session(h);
  const tags = async (open: boolean): Promise<number> => {
    s.setAll(open);
    if (!open) s.setFold(find(h, "state"), OPEN);
    await s.layOut();
    return s.shape(0)?.tagEnd.filter((end) => end === 0).length ?? -1;
  };
  assert.equal(await tags(true), 2);
  assert.equal(await tags(false), 0);
});

test("a model of a few boxes opens, as long as names can be drawn", async () => {
  const opened = async (ops: number): Promise<boolean> => {
    const nodes: NodeSpec[] = [{ op: "Input", kind: "source", name: "x" }];
    for (let k = 0; k < ops; k++) nodes.push({ op: "Relu", inputs: [k], path: "model" });
    const s = session(await load({ nodes, inputs: [0], outputs: [[ops, 0]] }));
    await firstView(s, 1000, 600);
    return s.fold[1] === OPEN;
  };
  assert.equal(await opened(16), true);
  assert.equal(await opened(80), false);
});
