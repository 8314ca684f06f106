import assert from "node:assert/strict";
import { test } from "node:test";
import { GlassError } from "../src/base/errors";
import { Budget, checkNesting } from "../src/model/budget";
import { Graph } from "../src/model/graph";
import { Recording } from "../src/model/recording";
import { makeGlass, zip } from "./support/glass";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const GRAPH = { name: "g", stages: [{ name: "s" }] };

/** A recording with this header and these tables, packed. */
function glass(tables: Readonly<Record<string, Uint8Array>>, graphs: unknown[] = [GRAPH]): Uint8Array {
  const header = { format: "glasshouse", version: [1, 0], graphs };
  return zip(new Map([["glass.json", utf8(JSON.stringify(header))], ...Object.entries(tables)]));
}

function table(head: unknown, data = new Uint8Array(0)): Uint8Array {
  const text = utf8(JSON.stringify(head));
  const base = Math.ceil((4 + text.length) / 8) * 8;
  const out = new Uint8Array(base + data.length);
  new DataView(out.buffer).setUint32(0, text.length, true);
  out.set(text, 4);
  out.set(data, base);
  return out;
}

async function refused(bytes: Uint8Array, pattern: RegExp): Promise<void> {
  await assert.rejects(
    async () => Graph.load(await Recording.open(bytes), 0),
    (e: Error) => e instanceof GlassError && (pattern.test(e.message) || assert.fail(e.message)),
  );
}

test("a small file claims no rows without bytes for them", async () => {
  for (const rows of [2 ** 52, 3_000_000, -1]) {
    await refused(
      glass({ "g0/nodes.0": table({ rows, columns: [] }) }),
      /g0\/nodes\.0: asks for .* rows; a file of this size may have 2,000,000/,
    );
  }
  for (const rows of [0.5, null, "9", 2 ** 60]) {
    await refused(glass({ "g0/nodes.0": table({ rows, columns: [] }) }), /lacks rows or columns/);
  }
});

test("tables together stay within what decoding may take", async () => {
  // 20 parts of the largest kind that each is allowed alone: 100,000 rows, twelve columns that the file lacks.
  const stages = Array.from({ length: 20 }, () => ({ name: "s" }));
  const parts = Object.fromEntries(stages.map((_, s) => [`g0/nodes.${s}`, table({ rows: 100_001, columns: [] })]));
  await refused(glass(parts, [{ name: "g", stages }]), /rows; a file of this size may have/);
  const budget = new Budget(1000);
  budget.spend("decoded_bytes", 500 * 2 ** 20, "a");
  assert.throws(() => budget.spend("decoded_bytes", 13 * 2 ** 20, "b"), /b: asks for 537,919,488 bytes when decoded/);
  new Budget(100 * 2 ** 20).spend("decoded_bytes", 6000 * 2 ** 20, "an honest large file");
});

test("a member that says it inflates a thousandfold more than it can is not allocated", async () => {
  const bytes = makeGlass({ nodes: [{ op: "Add" }] });
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = bytes.length - 46; at > 0; at--) {
    if (view.getUint32(at, true) === 0x02014b50) view.setUint32(at + 24, 400 * 2 ** 20, true);
  }
  await refused(bytes, /would inflate to 419430400, which none do/);
});

test("headers of brackets and of stages are refused before they are parsed or kept", async () => {
  const stages = Array.from({ length: 30_000 }, () => ({ name: "" }));
  await refused(glass({}, [{ name: "g", stages }]), /30,001 graphs and stages; a file of this size may have 20,000/);
  assert.throws(() => new Budget(10).json(utf8("[".repeat(1_100_000)), "x"), /1,100,000 lists and objects/);
});

test("nesting ends, and is not deeper than a page can draw", async () => {
  const nested = (parents: number[]): Uint8Array =>
    glass(
      {},
      parents.map((parent) => ({ ...GRAPH, parent })),
    );
  await refused(nested([-1, 2, 1]), /graphs: entry 2 is nested in 1/);
  await refused(nested([0]), /entry 0 is nested in 0/);
  await refused(nested([-1, 7]), /entry 1 is nested in 7/);
  await refused(nested([-1, 0.5]), /entry 1 is nested in 0.5/);
  const chain = Int32Array.from({ length: 30_000 }, (_, i) => i - 1);
  assert.throws(() => checkNesting(chain, new Budget(1e6), "g0/groups"), /10,001 levels of nesting/);
  checkNesting(chain.subarray(0, 10_000), new Budget(10), "g0/groups");
  const upwards = Int32Array.from({ length: 9000 }, (_, i) => (i < 8999 ? i + 1 : -1));
  checkNesting(upwards, new Budget(1e6), "g0/groups");
});

test("groups inside each other are damage, not a hang", async () => {
  const parent = Uint8Array.from([1, 0, 0, 0, 0, 0, 0, 0]);
  const columns = [{ name: "parent", type: "int", parts: [[0, 2, "i8"]] }];
  await refused(glass({ "g0/groups": table({ rows: 2, columns }, parent) }), /g0\/groups: entry 1 is nested in 0/);
});

test("columns that are no columns, and parts at odd places, are damage", async () => {
  for (const column of [null, 3, {}, { name: "id" }, { name: 5, parts: [] }]) {
    await refused(glass({ "g0/nodes.0": table({ rows: 1, columns: [column] }) }), /a column has no name or no parts/);
  }
  const odd = { name: "id", type: "int", parts: [[1, 4, "i32"]] };
  await refused(glass({ "g0/nodes.0": table({ rows: 1, columns: [odd] }, new Uint8Array(8)) }), /4 bytes for 1 values/);
  await refused(glass({ "g0/nodes.0": table(null) }), /lacks rows or columns/);
});
