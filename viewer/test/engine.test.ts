import assert from "node:assert/strict";
import { test } from "node:test";
import type { Call } from "../src/base/rpc";
import type { ViewSpec } from "../src/engine/api";
import { Engine } from "../src/engine/engine";
import { Scene } from "../src/gl/scene";
import { defaultFont } from "../src/layout/measure";
import { parseQuery } from "../src/model/query";
import { makeGlass, type GraphSpec } from "./support/glass";
import { transformer } from "./support/models";

const call: Call = { cancelled: false, progress: () => undefined, breathe: () => Promise.resolve(), transfer: () => undefined };
const view: ViewSpec = { graph: 0, stage: 0, grouping: "module", across: false, fold: { base: "none", changes: [] } };

async function open(spec: GraphSpec, fold: ViewSpec["fold"] = view.fold) {
  const bytes = makeGlass(spec);
  const m = new Engine().methods();
  await m.open({ bytes: bytes.buffer as ArrayBuffer, font: defaultFont() }, call);
  const scene = new Scene();
  const shown = await m.show({ view: { ...view, fold }, width: 1280, height: 680 }, call);
  scene.apply(shown.update);
  return { m, scene, shown };
}

test("a query is read into terms", () => {
  const t = parseQuery('gelu op:Add -kind:source "two words" /conv\\d/ shape:[1,128] model.py:41 eps<1e-3');
  assert.deepEqual(t.map((x) => [x.not, x.field, x.op, x.text]), [
    [false, "", ":", "gelu"], [false, "op", ":", "add"], [true, "kind", ":", "source"], [false, "", ":", "two words"],
    [false, "", ":", "/conv\\d/"], [false, "shape", ":", "[1,128]"], [false, "line", "=", "model.py:41"], [false, "eps", "<", "1e-3"],
  ]);
  assert.throws(() => parseQuery("/(/"), /regular expression/);
});

test("search finds nodes and groups and says which groups hold hits", async () => {
  const { m } = await open(transformer(4));
  const r = await m.search({ query: "op:softmax", limit: 10 }, call);
  assert.equal(r.nodes, 4);
  assert.equal(r.hits.length, 4);
  const all = await m.search({ query: "-kind:source", limit: 1000 }, call);
  assert.equal(all.nodes, 3 + 4 * 13); // embed, mask, head and thirteen working nodes a layer
  const named = await m.search({ query: "attn", limit: 10 }, call);
  assert.equal(named.groups, 4);
  const inModule = await m.search({ query: "module:mlp op:gelu", limit: 10 }, call);
  assert.equal(inModule.nodes, 4);
  assert.equal((await m.search({ query: "shape:float32[2,8] op:concat", limit: 10 }, call)).total, 0);
});

test("an item is described with its path, its tensors and both ends", async () => {
  const { m } = await open(transformer(2));
  const hit = (await m.search({ query: "op:softmax", limit: 1 }, call)).hits[0];
  const d = await m.describe({ item: hit.item }, call);
  assert.deepEqual(d.path.map((p) => p.title), ["layers", "layers.0", "attn", "Softmax"]);
  assert.equal(d.inputs[0].ends[0].title, "Add");
  assert.equal(d.outputs[0].ends[0].title, "Matmul");
  assert.equal(d.inputs[0].type, "f32[2,8]");
  const attn = d.path[2];
  const g = await m.describe({ item: attn.item }, call);
  assert.equal(g.inputs.length, 2, "x and the mask");
  assert.equal(g.outputs.length, 1);
  assert.deepEqual(g.opCounts[0], ["Matmul", 5]);
});

test("revealing an item opens just what hides it", async () => {
  const { m, scene } = await open(transformer(6));
  const hits = (await m.search({ query: "op:softmax", limit: 10 }, call)).hits;
  for (const at of [0, 3]) {
    const changes = await m.reveal({ item: hits[at].item }, call);
    const shown = await m.show({ view: { ...view, fold: { base: "none", changes } }, width: 1280, height: 680 }, call);
    scene.apply(shown.update);
    assert.ok(scene.place(hits[at].item), `hit ${at} is drawn`);
    assert.equal(shown.boxes < 60, true);
  }
});

test("the strokes of a node run through every border to its neighbours", async () => {
  const { m, scene } = await open(transformer(3), { base: "all", changes: [] });
  const hit = (await m.search({ query: "op:softmax", limit: 1 }, call)).hits[0];
  const pairs = await m.strokes({ item: hit.item }, call);
  assert.equal(pairs.length, 4, "one edge in, one out, both inside the group");
  const residual = (await m.search({ query: "op:add", limit: 9 }, call)).hits[1];
  const far = await m.strokes({ item: residual.item }, call);
  const groups = new Set<number>();
  for (let i = 0; i < far.length; i += 2) groups.add(far[i]);
  assert.ok(groups.size >= 2, "an output that goes into other groups is followed there");
  for (const g of groups) assert.ok(scene.group(g));
});

test("reach follows the flow both ways and counts its steps", async () => {
  const { m } = await open(transformer(3));
  const hit = (await m.search({ query: "op:softmax", limit: 3 }, call)).hits;
  const up = await m.reach({ item: hit[1].item, forward: false, backward: true, steps: 1e9 }, call);
  assert.equal(up[hit[0].item], 1);
  assert.equal(up[hit[2].item], 0);
  const near = await m.reach({ item: hit[1].item, forward: true, backward: false, steps: 1 }, call);
  assert.equal(near.subarray(0, 45).reduce((n, v) => n + v, 0), 2);
});

test("totals and outline say what a model is made of", async () => {
  const { m } = await open(transformer(12));
  const t = await m.totals(null, call);
  assert.equal(t.parameters, 12 * 16);
  assert.deepEqual(t.opCounts[0], ["Matmul", 12 * 6 + 1]);
  assert.deepEqual(t.inputs.map((i) => i.title), ["input_ids", "mask"]);
  const o = await m.outline({ item: -1, from: 0, limit: 100 }, call);
  assert.ok(o.rows.some((r) => r.title === "layers × 12" && r.children === 12 && r.share > 0.9));
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
  const hits = (await m.search({ query: "op:softmax", limit: 10 }, call)).hits;
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
