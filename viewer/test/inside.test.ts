import assert from "node:assert/strict";
import { test } from "node:test";
import { Graph } from "../src/model/graph";
import { buildHierarchy, groupKey } from "../src/model/hierarchy";
import { INSIDE, unfoldBodies } from "../src/model/inside";
import { nodeTitle } from "../src/model/labels";
import { Recording } from "../src/model/recording";
import { selectStage } from "../src/model/stage";
import { makeGlass, type GraphSpec } from "./support/glass";

/** x -> Fused(x, w) -> After; the body computes Mul(x, w), then Relu, and hands its first operand on as a second output. */
const body: GraphSpec = {
  nodes: [
    { op: "Input", kind: "source" },
    { op: "Input", kind: "source" },
    { op: "Mul", inputs: [0, 1] },
    { op: "Relu", inputs: [2] },
  ],
  inputs: [0, 1],
  outputs: [
    [3, 0],
    [0, 0],
  ],
};
const fused = (id: number, from: number, path: string) => ({
  id,
  op: "Fused",
  inputs: [from, 1],
  outputs: ["f32[2]", "f32[2]"],
  path,
  bodies: [1],
});
const spec: GraphSpec = {
  nodes: [
    { id: 0, op: "Input", kind: "source", name: "x" },
    { id: 1, op: "Input", kind: "source", name: "w" },
    fused(2, 0, "net"),
    {
      id: 3,
      op: "After",
      inputs: [
        [2, 0],
        [2, 1],
      ],
      path: "net",
    },
  ],
  inputs: [0, 1],
  outputs: [[3, 0]],
  bodies: [body],
};

async function unfolded(graph: GraphSpec, ids: readonly number[]) {
  const rec = await Recording.open(makeGlass(graph));
  const joined = await unfoldBodies(await Graph.load(rec, 0), 0, ids, (i) => Graph.load(rec, i));
  const stage = selectStage(joined, 0);
  const h = buildHierarchy(stage, "module");
  const titles = Array.from({ length: stage.count }, (_, n) => nodeTitle(h, n));
  const reads = (title: string): string[] => {
    const n = titles.indexOf(title);
    return Array.from(stage.inputs.values.subarray(stage.inputs.offsets[n], stage.inputs.offsets[n + 1]), (s) =>
      s < 0 ? "nothing" : titles[s],
    );
  };
  return { h, titles, reads };
}

test("the ops of a body stand in its node's place and read what the node read", async () => {
  const { h, titles, reads } = await unfolded(spec, [2]);
  assert.deepEqual([...titles].sort(), ["After", "Mul", "Relu", "output", "w", "x"]);
  assert.deepEqual(reads("Mul"), ["x", "w"]);
  assert.deepEqual(reads("Relu"), ["Mul"]);
  assert.deepEqual(reads("After"), ["Relu", "x"], "the second output is an operand that the body hands on");
  const keys = Array.from({ length: h.groups }, (_, g) => groupKey(h, g));
  const inside = keys.indexOf(INSIDE + 2);
  assert.ok(inside > 0, "a group of its own");
  assert.equal(h.end[inside] - h.start[inside], 2);
});

test("one unfolded node may read another", async () => {
  const two: GraphSpec = {
    ...spec,
    nodes: [...spec.nodes.slice(0, 3), fused(4, 2, "net"), { id: 3, op: "After", inputs: [[4, 0]] }],
  };
  const { titles, reads } = await unfolded(two, [2, 4]);
  assert.equal(titles.filter((t) => t === "Mul").length, 2);
  assert.deepEqual(reads("After"), ["Relu"]);
  assert.ok(!titles.includes("Fused"));
});

test("a body that does not read the node's operands one by one stays closed", async () => {
  const odd: GraphSpec = { ...spec, bodies: [{ ...body, inputs: [0] }] };
  const { titles } = await unfolded(odd, [2]);
  assert.ok(titles.includes("Fused"));
});
