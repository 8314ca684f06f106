import assert from "node:assert/strict";
import { test } from "node:test";
import { GlassError } from "../src/base/errors";
import { Graph } from "../src/model/graph";
import { groupKey, type Hierarchy } from "../src/model/hierarchy";
import { groupSubtitle, groupTitle, nodeTitle } from "../src/model/labels";
import { Recording } from "../src/model/recording";
import { selectStage } from "../src/model/stage";
import { makeGlass, zip, type NodeSpec } from "./support/glass";
import { load, transformer } from "./support/models";

const titles = (h: Hierarchy): string[] => [...Array(h.groups).keys()].map((g) => groupTitle(h, g));
const group = (h: Hierarchy, title: string): number => titles(h).indexOf(title);

test("a recording is read back: columns, deltas, strings, groups", async () => {
  const rec = await Recording.open(
    makeGlass({
      nodes: [
        { op: "Input", kind: "source", name: "x", outputs: ["float32[1, 128]"] },
        { op: "Split", inputs: [0], outputs: ["float32[1, 64]", "float32[1, 64]"], path: "a" },
        {
          op: "Mul",
          inputs: [
            [1, 0],
            [1, 1],
          ],
          path: "a/b",
        },
      ],
      inputs: [0],
    }),
  );
  const g = await Graph.load(rec, 0);
  assert.deepEqual([...g.id], [0, 1, 2]);
  assert.deepEqual([...g.inputs.values], [0, 1, 1]);
  assert.deepEqual([...g.ports.values], [0, 0, 1]);
  assert.equal(g.strings.at(g.op[1]), "Split");
  assert.deepEqual(g.groupings(), ["module"]);
  const s = selectStage(g, 0);
  assert.equal(s.count, 3);
  assert.equal(s.edges, 3);
  assert.equal(s.tensorStart[3], 4);
  assert.deepEqual([...s.inputTensor], [0, 1, 2]);
});

test("damaged files are refused with the place and what to do", async () => {
  const good = makeGlass({ nodes: [{ op: "Add" }] });
  const rejects = async (bytes: Uint8Array, pattern: RegExp): Promise<void> => {
    await assert.rejects(
      async () => Graph.load(await Recording.open(bytes), 0),
      (e: Error) => e instanceof GlassError && pattern.test(e.message),
    );
  };
  await rejects(new Uint8Array(10), /not a Glasshouse recording/);
  await rejects(new TextEncoder().encode('{"a": 1}'.repeat(20)), /not a Glasshouse recording/);
  await rejects(good.slice(0, good.length - 40), /cut off/);
  const flipped = good.slice();
  flipped.fill(0xff, 60, 90);
  await rejects(flipped, /damaged|not JSON|inflates|cut off/);
  await rejects(zip(new Map([["glass.json", new TextEncoder().encode("{")]])), /not JSON/);
  const newer = { format: "glasshouse", version: [2, 0], graphs: [] };
  await rejects(zip(new Map([["glass.json", new TextEncoder().encode(JSON.stringify(newer))]])), /reads up to 1/);
});

test("stages are intervals: what is alive, in an order that follows the computation", async () => {
  const nodes: NodeSpec[] = [
    { op: "Input", kind: "source" },
    { op: "Mul", inputs: [0], died: 1 },
    { op: "Add", inputs: [1], died: 1 },
    { op: "Relu", id: 3, inputs: [2], died: 1 },
    { op: "Fused", id: 9, inputs: [0], born: 1, replaces: [1, 2] },
    { op: "Relu", id: 3, inputs: [9], born: 1 },
  ];
  const rec = await Recording.open(makeGlass({ nodes, stages: ["trace", "Fuse"], outputs: [[3, 0]] }));
  const g = await Graph.load(rec, 0);
  const ops = (stage: number): string[] => {
    const s = selectStage(g, stage);
    return [...s.row].map((r) => (r < 0 ? "(output)" : g.strings.at(g.op[r])));
  };
  assert.deepEqual(ops(0), ["Input", "Mul", "Add", "Relu", "(output)"]);
  assert.deepEqual(ops(1), ["Input", "Fused", "Relu", "(output)"]);
});

test("a diff keeps what was removed in place and tells what happened to the rest", async () => {
  const nodes: NodeSpec[] = [
    { op: "Input", kind: "source" },
    { op: "Mul", inputs: [0], died: 1 },
    { op: "Add", inputs: [1], died: 1 },
    { op: "Relu", id: 3, inputs: [2], died: 1 },
    { op: "Fused", id: 9, inputs: [0], born: 1, replaces: [1, 2] },
    { op: "Relu", id: 3, inputs: [9], born: 1 },
  ];
  const g = await Graph.load(await Recording.open(makeGlass({ nodes, stages: ["trace", "Fuse"] })), 0);
  const s = selectStage(g, 1, true);
  assert.deepEqual(
    [...s.row].map((r, n) => [g.strings.at(g.op[r]), s.change[n]]),
    [
      ["Input", 0],
      ["Mul", 2],
      ["Add", 2],
      ["Fused", 1],
      ["Relu", 3],
    ],
  );
  assert.equal(s.edges, 4);
  assert.equal(
    selectStage(g, 0, true).change.some((c) => c !== 0),
    false,
  );
});

test("a group around one group is one box with both names", async () => {
  const h = await load({
    nodes: [
      { op: "A", path: "encoder/layer/0" },
      { op: "B", path: "encoder/layer/1", inputs: [0] },
      { op: "C", inputs: [1] },
    ],
  });
  assert.deepEqual(titles(h), ["test", "encoder.layer", "layer.0", "layer.1"]);
});

test("identical layers are recognised, different ones are not", async () => {
  const h = await load(transformer(12));
  const layers = group(h, "layers × 12");
  assert.ok(layers > 0, titles(h).slice(0, 6).join());
  assert.equal(h.repeat[layers], 12);
  assert.equal(
    titles(h).filter((t) => /^q × /.test(t)).length,
    0,
    "q, k and v are no run: their names say what they are",
  );
  const spec = transformer(4);
  const changed = spec.nodes.map((n, i) =>
    n.path === "layers/2/mlp" && n.op === "Gelu" ? { ...n, op: "Relu" } : spec.nodes[i],
  );
  const other = await load({ ...spec, nodes: changed });
  assert.equal(
    [...other.repeat].some((r) => r > 0),
    false,
  );
});

test("a run among other members gets a group of its own", async () => {
  const nodes: NodeSpec[] = [{ op: "Stem", path: "net/stem" }];
  for (let i = 0; i < 5; i++) nodes.push({ op: "Block", path: `net/block${i}`, inputs: [i] });
  nodes.push({ op: "Head", path: "net/head", inputs: [5] });
  const h = await load({ nodes });
  const run = group(h, "block × 5");
  assert.ok(run > 0, titles(h).join());
  assert.equal(h.raw[run], -2);
  assert.equal(h.end[run] - h.start[run], 5);
  assert.equal(groupKey(h, run) < 0, true);
});

test("a module called before and after another is a box for each call, unless one box is no trouble", async () => {
  const twice = await load({
    nodes: [
      { op: "Conv", path: "net/conv1" },
      { op: "Relu", path: "net/relu", inputs: [0] },
      { op: "Conv", path: "net/conv2", inputs: [1] },
      { op: "Relu", path: "net/relu", inputs: [2] },
    ],
  });
  assert.deepEqual(titles(twice), ["test", "net", "conv1", "relu", "conv2", "relu (2)"]);
  const beside = await load({
    nodes: [
      { op: "Split", path: "net/split" },
      { op: "Rot", path: "net/rotary", inputs: [0] },
      { op: "Rot", path: "net/rotary", inputs: [0] },
      { op: "Mul", path: "net/mul", inputs: [1, 2] },
    ],
  });
  assert.deepEqual(titles(beside), ["test", "net", "split", "rotary", "mul"]);
});

test("a tied embedding is a box for each call: the weight that both read does not make them one", async () => {
  const h = await load({
    nodes: [
      { op: "input", kind: "source" },
      { op: "constant", kind: "source", path: "wte", name: "weight" },
      { op: "take", path: "wte", inputs: [0, 1] },
      { op: "gelu", path: "h", inputs: [2] },
      { op: "matmul", path: "wte", inputs: [3, 1] },
    ],
  });
  assert.deepEqual(titles(h), ["test", "wte", "h", "wte (2)"]);
});

test("weights move in with the module that alone uses them", async () => {
  const h = await load({
    nodes: [
      { op: "Parameter", kind: "source", name: "fc.weight" },
      { op: "Input", kind: "source" },
      { op: "Matmul", kind: "matmul", path: "fc", inputs: [1, 0] },
      { op: "Relu", inputs: [2] },
    ],
    inputs: [1],
  });
  const fc = group(h, "fc");
  assert.equal(h.parent[0], h.nodes + fc);
  assert.equal(groupSubtitle(h, fc), "Matmul");
});

test("a weight that a pass left alone in its module goes out to its user; a shared one stays", async () => {
  const h = await load({
    nodes: [
      { op: "Parameter", kind: "source", path: "mlp/fc" },
      { op: "FusedMatmul", kind: "matmul", path: "mlp", inputs: [0] },
      { op: "Parameter", kind: "source", path: "embed" },
      { op: "Gather", kind: "move", path: "embed", inputs: [2] },
      { op: "Matmul", kind: "matmul", path: "head", inputs: [3, 2, 1] },
    ],
  });
  assert.deepEqual(titles(h), ["test", "mlp", "embed", "head"]);
  assert.equal(h.parent[2], h.nodes + group(h, "embed"));
});

test("every node lies in one interval of each of its groups", async () => {
  const h = await load(transformer(5, 4));
  for (let n = 0; n < h.nodes; n++) {
    for (let p = h.parent[n]; p >= 0; p = h.parent[p]) {
      const g = p - h.nodes;
      assert.ok(h.pos[n] >= h.start[g] && h.pos[n] < h.end[g]);
    }
  }
  assert.equal(h.end[0], h.nodes);
});

test("a hierarchy 5,000 levels deep and a name of a megabyte are no trouble", async () => {
  const deep = await load({
    nodes: [
      { op: "A", path: Array.from({ length: 5000 }, (_, i) => `m${i}`).join("/") },
      { op: "B".repeat(1 << 20), inputs: [0] },
    ],
  });
  assert.ok(deep.groups >= 1);
  assert.ok(nodeTitle(deep, 1).length <= 200);
});
