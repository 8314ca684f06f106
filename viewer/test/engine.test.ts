import assert from "node:assert/strict";
import { test } from "node:test";
import type { Call } from "../src/base/rpc";
import type { ViewSpec } from "../src/engine/api";
import { Engine } from "../src/engine/engine";
import { Scene } from "../src/gl/scene";
import { defaultFont } from "../src/layout/measure";
import { makeGlass, type GraphSpec } from "./support/glass";
import { transformer } from "./support/models";

const call: Call = {
  cancelled: false,
  progress: () => undefined,
  breathe: () => Promise.resolve(),
  giveWay: () => Promise.resolve(),
  transfer: () => undefined,
};
const view: ViewSpec = { graph: 0, stage: 0, grouping: "module", across: false, fold: { base: "none", changes: [] } };

/** Items of all nodes with an op, in order of computation. */
async function ops(m: ReturnType<Engine["methods"]>, op: string): Promise<{ item: number }[]> {
  const found = await m.find({ text: `op:${op}`, limit: 100 }, call);
  return found.hits.filter((h) => !h.group).map((h) => ({ item: h.item }));
}

async function open(spec: GraphSpec, fold: ViewSpec["fold"] = view.fold) {
  const bytes = makeGlass(spec);
  const m = new Engine().methods();
  await m.open({ bytes: bytes.buffer as ArrayBuffer, font: defaultFont() }, call);
  const scene = new Scene();
  const shown = await m.show({ view: { ...view, fold }, width: 1280, height: 680 }, call);
  scene.apply(shown.update);
  return { m, scene, shown };
}

test("what was warmed is what is shown, without reading or sorting it again", async () => {
  const plain = await open(transformer(6), { base: "first", changes: [] });
  const m = new Engine().methods();
  await m.open({ bytes: makeGlass(transformer(6)).buffer as ArrayBuffer, font: defaultFont() }, call);
  await m.warm({ start: { grouping: "no such grouping" } }, call);
  const told: string[] = [];
  const listening: Call = { ...call, progress: (p) => told.push(p.text) };
  const shown = await m.show(
    { view: { ...view, fold: { base: "first", changes: [] } }, width: 1280, height: 680 },
    listening,
  );
  assert.deepEqual(shown.fold, plain.shown.fold);
  assert.deepEqual(shown.update.labels, plain.shown.update.labels);
  assert.ok(!told.includes("Sorting nodes") && !told.includes("Grouping nodes"), told.join());
});

test("revealing an item opens just what hides it", async () => {
  const { m, scene } = await open(transformer(6));
  const hits = await ops(m, "softmax");
  for (const at of [0, 3]) {
    const { changes } = await m.reveal({ item: hits[at].item }, call);
    const shown = await m.show({ view: { ...view, fold: { base: "none", changes } }, width: 1280, height: 680 }, call);
    scene.apply(shown.update);
    assert.ok(scene.place(hits[at].item), `hit ${at} is drawn`);
    assert.equal(shown.boxes < 60, true);
  }
});

test("the strokes of a node run through every border to its neighbours", async () => {
  const { m, scene } = await open(transformer(3), { base: "all", changes: [] });
  const hit = (await ops(m, "softmax"))[0];
  const pairs = await m.strokes({ item: hit.item }, call);
  assert.equal(pairs.length, 4, "one edge in, one out, both inside the group");
  const residual = (await ops(m, "add"))[1];
  const far = await m.strokes({ item: residual.item }, call);
  const groups = new Set<number>();
  for (let i = 0; i < far.length; i += 2) groups.add(far[i]);
  assert.ok(groups.size >= 2, "an output that goes into other groups is followed there");
  for (const g of groups) assert.ok(scene.group(g));
});

test("a named port knows where its tensor comes from", async () => {
  const { m, scene } = await open(transformer(12), { base: "all", changes: [] });
  let found = 0;
  for (let g = 0; g < 400; g++) {
    const v = scene.group(g);
    if (!v || v.shape.tagEdge.length === 0) continue;
    const item = await m.portSource({ group: g, edge: v.shape.tagEdge[0] }, call);
    assert.ok(scene.place(item), "the source is drawn");
    found++;
  }
  assert.ok(found > 0);
});

test("views are declarative: the same spec gives the same drawing, whatever was shown before", async () => {
  const { m, scene } = await open(transformer(5));
  const hits = await ops(m, "softmax");
  const size = async (fold: ViewSpec["fold"]): Promise<string> => {
    const r = await m.show({ view: { ...view, fold }, width: 1280, height: 680 }, call);
    scene.apply(r.update);
    const { w, h } = scene.extent();
    const drawn = hits.filter((i) => scene.place(i.item)).length;
    return `${r.boxes} ${w} ${h} ${drawn}`;
  };
  const folded = await size({ base: "none", changes: [] });
  const unfolded = await size({ base: "all", changes: [] });
  const flat = await size({ base: "flat", changes: [] });
  assert.equal(await size({ base: "none", changes: [] }), folded);
  assert.equal(await size({ base: "all", changes: [] }), unfolded);
  assert.equal(await size({ base: "flat", changes: [] }), flat);
});

/** A model whose layers read a table of positions that a chain of ops makes from constants. */
const withTable = (ops: number): GraphSpec => {
  const nodes: GraphSpec["nodes"][number][] = [
    { op: "Input", kind: "source", name: "x" },
    { op: "Arange", kind: "source", path: "model" },
  ];
  for (let k = 0; k < ops; k++) nodes.push({ op: "Multiply", path: "model", inputs: [nodes.length - 1, 1] });
  const table = nodes.length - 1;
  for (let k = 0; k < 12; k++)
    nodes.push({ op: "Add", path: `model/layer${k}`, inputs: [k ? nodes.length - 1 : 0, table] });
  return { nodes, inputs: [0], outputs: [[nodes.length - 1, 0]] };
};

test("what a module computes from constants alone is one group beside the others", async () => {
  const all: ViewSpec["fold"] = { base: "all", changes: [] };
  const grouped = async (ops: number): Promise<string[]> => {
    const { m } = await open(withTable(ops), all);
    const found = await m.find({ text: 'group:"from constants"', limit: 5 }, call);
    return Promise.all(
      found.hits.map(async (h) => (await m.group({ item: h.item }, call)).path.map((p) => p.title).join()),
    );
  };
  assert.deepEqual(await grouped(5), ["model"]);
  assert.deepEqual(await grouped(2), [], "two ops are no detour");
  const { m, shown } = await open(withTable(5), all);
  const [table] = (await m.find({ text: 'group:"from constants"', limit: 1 }, call)).items;
  assert.equal((await m.group({ item: table }, call)).ops, 5);
  assert.deepEqual(shown.groupings, ["module"], "it is of the grouping that it stands in");
});

test("a group that the file does not have keeps its key when a pass removes another one before it", async () => {
  const nodes: GraphSpec["nodes"][number][] = [{ op: "Input", kind: "source", name: "x" }];
  const add = (module: string, died: number): number => {
    let table = nodes.push({ op: "Arange", kind: "source", path: module, died }) - 1;
    for (let k = 0; k < 5; k++) table = nodes.push({ op: "Multiply", path: module, inputs: [table, table], died }) - 1;
    let x = 0;
    for (let k = 0; k < 12; k++)
      x = nodes.push({ op: "Add", path: `${module}/layer${k}`, inputs: [x, table], died }) - 1;
    return x;
  };
  add("gone", 1);
  const last = add("stays", -1);
  const spec: GraphSpec = { nodes, stages: ["traced", "folded"], inputs: [0], outputs: [[last, 0]] };
  const m = new Engine().methods();
  await m.open({ bytes: makeGlass(spec).buffer as ArrayBuffer, font: defaultFont() }, call);
  const keyAt = async (stage: number): Promise<number[]> => {
    await m.show({ view: { ...view, stage, fold: { base: "all", changes: [] } }, width: 1280, height: 680 }, call);
    const found = await m.find({ text: 'group:"from constants"', limit: 5 }, call);
    return Promise.all([...found.items].map(async (item) => (await m.group({ item }, call)).key));
  };
  const [before, after] = [await keyAt(0), await keyAt(1)];
  assert.equal(before.length, 2);
  assert.deepEqual(after, [before[1]]);
});

test("a flat network opens as its stages: blocks in a row that make tensors of one type", async () => {
  const nodes: GraphSpec["nodes"][number][] = [{ op: "Input", kind: "source", name: "x" }];
  const add = (op: string, kind: string, inputs: number[], size: number): number =>
    nodes.push({ op, kind, inputs, outputs: [`float32[1, 8, ${size}, ${size}]`] }) - 1;
  const network = (sizes: readonly number[]): GraphSpec => {
    nodes.length = 1;
    let x = add("Conv", "conv", [0], 64);
    for (const size of sizes) {
      for (let block = 0; block < 3; block++) {
        let y = x;
        for (const activated of [true, true, false]) {
          y = add("BatchNorm", "norm", [add("Conv", "conv", [y], size)], size);
          if (activated) y = add("Relu", "elementwise", [y], size);
        }
        const short = block > 0 ? x : add("BatchNorm", "norm", [add("Conv", "conv", [x], size)], size);
        x = add("Relu", "elementwise", [add("Add", "elementwise", [y, short], size)], size);
      }
    }
    return { nodes: [...nodes], inputs: [0], outputs: [[x, 0]] };
  };
  const titles = async (sizes: readonly number[]): Promise<string[]> => {
    const { scene } = await open(network(sizes));
    const root = scene.group(0);
    assert.ok(root);
    return Array.from({ length: root.count }, (_, i) => scene.title(root, i));
  };
  assert.deepEqual(
    (await titles([32, 16, 8])).filter((t) => !["x", "Conv", "output"].includes(t)),
    ["stage.0", "stage.1", "stage.2"],
  );
  assert.ok(!(await titles([32])).some((t) => t.startsWith("stage")), "one stage is the network itself");
});
