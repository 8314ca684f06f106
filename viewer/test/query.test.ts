import assert from "node:assert/strict";
import { test } from "node:test";
import type { Call } from "../src/base/rpc";
import { Camera } from "../src/gl/camera";
import type { ViewSpec } from "../src/engine/api";
import { Engine } from "../src/engine/engine";
import { defaultFont } from "../src/layout/measure";
import { readPlace, writePlace } from "../src/panels/links";
import { parseQuery, QueryError } from "../src/query/language";
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

async function open(spec: GraphSpec, stage = 0) {
  const m = new Engine().methods();
  await m.open({ bytes: makeGlass(spec).buffer as ArrayBuffer, font: defaultFont() }, call);
  await m.show({ view: { ...view, stage }, width: 1280, height: 680 }, call);
  return m;
}

const staged: GraphSpec = {
  stages: ["traced", "Fuse"],
  nodes: [
    { op: "Input", kind: "source", name: "x" },
    { op: "Matmul", kind: "matmul", inputs: [0], died: 1, path: "net" },
    { op: "Gelu", inputs: [1], died: 1, path: "net" },
    { op: "Tanh", inputs: [2], died: 1, path: "net" },
    { id: 4, op: "Fused", kind: "matmul", inputs: [0], born: 1, replaces: [1, 2], path: "net" },
    { id: 3, op: "Tanh", inputs: [4], born: 1, path: "net" },
  ],
};

test("terms are told apart by how they are written", () => {
  const kinds = (q: string): string[] =>
    parseQuery(q)
      .flat()
      .map((t) => (t.not ? "-" : "") + t.type);
  assert.deepEqual(kinds('gelu op:add shape:1,128 model.py:41 axis:-1 time>10us -kind:norm "two words" /a b/'), [
    "text",
    "field",
    "shape",
    "place",
    "attr",
    "measure",
    "-field",
    "text",
    "text",
  ]);
  assert.equal(parseQuery("op:a | op:b x").length, 2);
  assert.deepEqual(parseQuery("  "), []);
  // Slashes of a path are no regex, and a colon pair is no field.
  assert.deepEqual(kinds("/encoder/layer aten::add"), ["text", "text"]);
});

test("units scale what is compared with", () => {
  for (const spaced of ["time > 1 ms", "time> 1ms", "time >1 ms", "time >= 2 us op:add"])
    assert.deepEqual(
      parseQuery(spaced),
      parseQuery(spaced.replace(/ ?([<>]=?) ?/, "$1").replace(/(\d) (?=ms|us)/, "$1")),
    );
  assert.equal(parseQuery("gelu 3 ms")[0].length, 3, "without a comparison they are words");
  const [[us], [mb]] = parseQuery("time>10us | bytes>=2MB");
  assert.ok(us.type === "measure" && Math.abs(us.value - 1e-5) < 1e-12 && us.compare === ">");
  assert.ok(mb.type === "measure" && mb.value === 2e6 && mb.compare === ">=");
  assert.throws(() => parseQuery("time>3parsec"), QueryError);
  assert.throws(() => parseQuery("/(/"), QueryError);
});

test("finding gives counts, items in order and what stays bright", async () => {
  const m = await open(transformer(4));
  const count = async (text: string): Promise<number[]> => {
    const r = await m.find({ text, limit: 5 }, call);
    assert.equal(r.problem, "", text);
    return [r.nodes, r.groups];
  };
  assert.deepEqual(await count("op:softmax"), [4, 0]);
  assert.deepEqual(await count("attn"), [0, 4]);
  assert.deepEqual(await count("op:matmul in:mlp"), [4, 0]);
  assert.deepEqual(await count("op:matmul -in:attn"), [5, 0]);
  assert.deepEqual(await count("/^soft/ | op:gelu"), [8, 0]);
  assert.deepEqual(await count("shape:2,8 op:gelu"), [4, 0]);
  assert.deepEqual(await count("shape:2,88"), [0, 0]);
  assert.deepEqual(await count("is:input"), [2, 0]);
  assert.deepEqual(await count("q.weight"), [4, 0]);
  const r = await m.find({ text: "op:softmax", limit: 2 }, call);
  assert.equal(r.hits.length, 2);
  assert.ok(r.hits[0].where.includes("attn"));
  assert.ok([...r.items].every((item, i) => i === 0 || item > r.items[i - 1]));
  assert.equal(r.lit[r.items[0]], 1);
  assert.match((await m.find({ text: "is:purple", limit: 1 }, call)).problem, /not known/);
  assert.match((await m.find({ text: "heat>3", limit: 1 }, call)).problem, /no figures/);
});

test("a name leads to the node, or to what a pass made of it", async () => {
  const m = await open(staged, 0);
  const [gelu] = await m.itemsNamed({ names: [{ node: 2 }] }, call);
  assert.equal((await m.node({ item: gelu }, call)).op, "Gelu");
  assert.deepEqual(await m.nameOf({ item: gelu }, call), { node: 2 });
  assert.deepEqual(await m.itemsNamed({ names: [{ node: 99 }, { key: 12345 }] }, call), [-1, -1]);
});

test("stages are counted by what each pass did", async () => {
  const m = await open(staged, 1);
  const [traced, fused] = await m.stages({ graph: 0 }, call);
  assert.deepEqual(traced, { nodes: 4, added: 0, removed: 0, changed: 0 });
  assert.deepEqual(fused, { nodes: 3, added: 1, removed: 2, changed: 1 });
});

test("two stages are compared by id", async () => {
  const before = await open(staged, 0);
  const after = await open(staged, 1);
  const m = await before.matchWith({ other: await after.signature({ byId: true }, call) }, call);
  assert.deepEqual([m.onlyLeft, m.onlyRight, m.changed], [2, 1, 1]);
  assert.deepEqual(
    m.list.map((d) => [d.title, d.what]),
    [
      ["Matmul", ""],
      ["Gelu", ""],
      ["Fused", ""],
      ["Tanh", "inputs"],
    ],
  );
});

test("two files are matched by name, by module and op, and by their neighbours", async () => {
  const one: GraphSpec = {
    nodes: [
      { op: "Input", kind: "source", name: "x", outputs: ["float32[4]"] },
      {
        op: "aten.linear.default",
        kind: "matmul",
        name: "linear",
        inputs: [0],
        path: "net/fc",
        outputs: ["float32[8]"],
      },
      { op: "aten.relu.default", name: "relu", inputs: [1], path: "net", outputs: ["float32[8]"] },
      { op: "aten.tanh.default", name: "tanh", inputs: [2], outputs: ["float32[8]"] },
    ],
  };
  const two: GraphSpec = {
    nodes: [
      { op: "Input", kind: "source", name: "input.1", outputs: ["float32[4]"] },
      { op: "Gemm", kind: "matmul", name: "/net/fc/Gemm", inputs: [0], path: "net/fc", outputs: ["float32[8]"] },
      { op: "Relu", name: "/net/Relu", inputs: [1], path: "net", outputs: ["float32[8]"] },
      { op: "Sigmoid", name: "/Sigmoid", inputs: [2], outputs: ["float32[8]"] },
    ],
  };
  const [a, b] = [await open(one), await open(two)];
  const m = await a.matchWith({ other: await b.signature({ byId: false }, call) }, call);
  assert.deepEqual([...m.toRight.subarray(0, 3)], [0, 1, 2]);
  assert.deepEqual([m.onlyLeft, m.onlyRight, m.changed], [1, 1, 0]);
});

test("the first rule that fits a box wins; a broken one says so", async () => {
  const m = await open(transformer(2));
  const rule = (query: string, color: string) => ({
    queries: [{ type: "query", query }],
    styles: { node_bg_color: { id: "node_bg_color", value: color } },
  });
  const regex = {
    queries: [
      { type: "regex", queryRegex: "^Add$", matchTypes: ["title"] },
      { type: "node_type", nodeType: "op_nodes" },
    ],
    styles: { node_bg_color: "#00ff00" },
  };
  const r = await m.styles(
    {
      rules: [
        rule("op:softmax", "#ff0000"),
        rule("kind:reduction", "#0000ff"),
        regex,
        rule("/(/", "#fff"),
        { ...rule("op:gelu", "#123456"), enabled: false },
      ],
    },
    call,
  );
  assert.deepEqual(r.counts.slice(0, 3), [2, 2, 6]);
  assert.equal(r.counts[3], -1);
  assert.ok(r.problems[3]);
  const [softmax] = (await m.find({ text: "op:softmax", limit: 1 }, call)).items;
  assert.equal(r.fill[softmax], 0xff0000ff); // red, as 0xAABBGGRR
  const [gelu] = (await m.find({ text: "op:gelu", limit: 1 }, call)).items;
  assert.equal(r.fill[gelu], 0, "a rule that is switched off colours nothing");
});

test("tracing follows all edges; one step leads to boxes on screen", async () => {
  const m = await open(transformer(3));
  const [first, second] = (await m.find({ text: "op:softmax", limit: 3 }, call)).items;
  const up = await m.trace({ item: second, direction: "up" }, call);
  assert.equal(up.lit[first], 1);
  const down = await m.trace({ item: second, direction: "down" }, call);
  assert.equal(down.lit[first], 0);
  // Everything is folded: a step from inside one group leads to the box that hides the rest.
  const near = await m.around({ item: second, direction: "down" }, call);
  assert.ok(near.length > 0);
});

test("the outline lists a window of an opened tree", async () => {
  const m = await open(transformer(12));
  const top = await m.tree({ open: [], from: 0, count: 50 }, call);
  const layers = top.rows.find((r) => r.title.startsWith("layers"));
  assert.ok(layers && !layers.open && layers.ops === 12 * 13);
  const more = await m.tree({ open: [layers.key], from: 2, count: 3 }, call);
  assert.equal(more.total, top.total + 12);
  assert.equal(more.rows.length, 3);
  const [gelu] = (await m.find({ text: "op:gelu", limit: 1 }, call)).items;
  const place = await m.treePlace({ open: [], item: gelu }, call);
  const found = await m.tree({ open: place.open, from: place.index, count: 1 }, call);
  assert.equal(found.rows[0].item, gelu);
});

test("a place survives as a link, and a broken link is no place", () => {
  const spec: ViewSpec = {
    graph: 2,
    stage: 3,
    grouping: "my kernels & more",
    across: true,
    diff: true,
    fold: {
      base: "none",
      changes: [
        [12, 1],
        [-7, 2],
      ],
    },
  };
  const text = writePlace(spec, { key: -4 }, new Camera(-120, 33, 0.75), "data:heat", "op:add | x");
  const back = readPlace(`#${text}`);
  assert.deepEqual(back?.spec, spec);
  assert.deepEqual(back?.selected, { key: -4 });
  assert.deepEqual([back?.camera?.x, back?.camera?.y, back?.camera?.scale], [-120, 33, 0.75]);
  assert.equal(back?.color, "data:heat");
  assert.equal(back?.query, "op:add | x");
  assert.equal(readPlace("#nonsense"), null);
  assert.deepEqual(readPlace("#g=-1&s=x&f=evil.9_9&at=z&c=1_2_0")?.spec, {
    graph: 0,
    stage: 0,
    grouping: "module",
    across: false,
    diff: false,
    fold: { base: "first", changes: [] },
  });
});
