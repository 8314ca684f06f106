import assert from "node:assert/strict";
import { test } from "node:test";
import { shorter } from "../src/gl/draw_box";

test("what a box has no room for is counted, never cut or left to its first word", () => {
  const within =
    (room: number) =>
    (text: string): boolean =>
      text.length <= room;
  const ops = "take + add + LayerNorm + gelu";
  assert.equal(shorter(ops, within(40)), ops);
  assert.equal(shorter(ops, within(20)), "take + add + 2 more");
  assert.equal(shorter(ops, within(15)), "take + 3 more");
  assert.equal(shorter(ops, within(4)), "take");
  assert.equal(shorter(ops, within(3)), undefined);
  assert.equal(shorter("Linear + gelu", within(10)), "Linear");
  assert.equal(shorter("BertLayer · 7 ops", within(10)), "BertLayer");
});
