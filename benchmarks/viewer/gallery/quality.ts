/** Measures the layout of recordings, ours and ELK's on the same boxes and edges; one line of JSON each. */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Call } from "../../../viewer/src/base/rpc";
import type { FoldSpec } from "../../../viewer/src/engine/api";
import { Engine } from "../../../viewer/src/engine/engine";
import { startSpec } from "../../../viewer/src/engine/start_spec";
import { Scene } from "../../../viewer/src/gl/scene";
import { defaultFont } from "../../../viewer/src/layout/measure";
import { drawingOf } from "./ours";
import { elkOf } from "./elk";
import { qualityOf } from "./strokes";

const WINDOW = { width: 980, height: 640 };
/** ELK is asked up to here; what is asked of us holds for 2,000 nodes. */
const MOST = 6000;

const call: Call = { cancelled: false, progress: () => undefined, breathe: () => Promise.resolve(), giveWay: () => Promise.resolve(), transfer: () => undefined };

async function measure(path: string): Promise<void> {
  const bytes = readFileSync(path);
  const m = new Engine().methods();
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  const { header } = await m.open({ bytes: buffer, font: defaultFont() }, call);
  const scene = new Scene();
  for (const [fold, spec] of [["first", { base: "first", changes: [] }], ["unfolded", { base: "all", changes: [] }]] as [string, FoldSpec][]) {
    const shown = await m.show({ view: { ...startSpec(header, {}), fold: spec }, ...WINDOW }, call);
    scene.apply(shown.update);
    const made = drawingOf(scene);
    const ours = { ...qualityOf(made.drawing), wrapped: made.wrapped, cuts: made.cuts };
    const elk = made.graph.count <= MOST && !process.env.NO_ELK ? qualityOf(await elkOf(made.graph)) : null;
    console.log(JSON.stringify({ name: basename(path, ".glass"), fold, boxes: made.drawing.boxes.length, edges: made.graph.edges, nodes: shown.nodes, ours, elk }));
  }
}

async function main(): Promise<void> {
  for (const path of process.argv.slice(2)) await measure(path);
}

void main();
