import assert from "node:assert/strict";
import { test } from "node:test";
import { Camera } from "../src/gl/camera";
import { DrawList } from "../src/gl/draw_list";
import { FrameBuilder } from "../src/gl/frame";
import type { FrameState } from "../src/gl/frame_state";
import { hitTest } from "../src/gl/hit";
import { Scene } from "../src/gl/scene";
import { svgOf } from "../src/gl/svg";
import { LIGHT } from "../src/gl/theme";
import { Tween } from "../src/gl/tween";
import { Measure } from "../src/layout/measure";
import { LayoutSession } from "../src/layout/session";
import type { Hierarchy } from "../src/model/hierarchy";
import { load, transformer } from "./support/models";

const W = 1280;
const H = 680;
const state: FrameState = { selected: -1, hover: -1, strokes: null, overlay: null, tween: null, links: [] };

async function sceneOf(
  h: Hierarchy,
  how: "all" | "flat" | "folded",
): Promise<{ scene: Scene; session: LayoutSession }> {
  const session = new LayoutSession(h, new Measure(), { across: false, width: 1000, height: 640 });
  if (how === "all") session.setAll(true);
  session.flat = how === "flat";
  await session.layOut();
  const scene = new Scene();
  scene.apply(session.takeUpdate());
  return { scene, session };
}

function frame(scene: Scene, camera: Camera, whole = false): { list: DrawList; visited: number } {
  const list = new DrawList(whole);
  const builder = new FrameBuilder();
  builder.build(list, scene, camera, W, H, LIGHT, state);
  return { list, visited: builder.visited };
}

test("a frame looks at what is on screen, however large the model", async () => {
  const h = await load(transformer(4000));
  for (const how of ["all", "flat"] as const) {
    const { scene } = await sceneOf(h, how);
    const r = scene.extent();
    const near = frame(scene, new Camera(-r.w / 2, -r.h / 2, 1));
    assert.ok(near.visited > 0 && near.visited < 1500, `${how}: ${near.visited} marks at scale 1`);
    const far = frame(scene, Camera.fit(r, W, H));
    assert.ok(far.visited < 40_000, `${how}: ${far.visited} marks for the whole`);
    assert.ok(far.list.fills.length + far.list.boxes.length + far.list.corners.length > 100, "and something is there");
  }
});

test("nested sheets do not paint the window over and over", async () => {
  const { scene } = await sceneOf(await load(transformer(12)), "all");
  for (const k of [1, 3, 6]) {
    const fit = Camera.fit(scene.extent(), W, H);
    const { list } = frame(scene, fit.zoom(k, W / 2, H / 2));
    let painted = 0;
    for (let i = 0; i < list.fills.length; i++) {
      const [x, y, w, h] = list.fills.f.subarray(5 * i, 5 * i + 4);
      painted += Math.max(0, Math.min(W, x + w) - Math.max(0, x)) * Math.max(0, Math.min(H, y + h) - Math.max(0, y));
    }
    assert.ok(
      painted > 0.2 * W * H && painted < 1.6 * W * H,
      `${(painted / W / H).toFixed(2)} windows painted at ${k} times`,
    );
  }
});

test("no text is smaller than 11 pixels at any scale", async () => {
  const { scene } = await sceneOf(await load(transformer(12)), "all");
  for (const scale of [0.02, 0.1, 0.3, 0.5, 0.77, 1, 2, 5]) {
    const { list } = frame(scene, new Camera(-50 * scale, -50 * scale, scale));
    for (const t of list.texts) assert.ok(t.px >= 11, `"${t.text}" at ${t.px}`);
  }
});

test("the header of a group stays in view while any of the group is", async () => {
  const { scene } = await sceneOf(await load(transformer(12)), "all");
  const r = scene.extent();
  const { list } = frame(scene, new Camera(-r.w * 0.3, -r.h * 0.6, 1));
  const top = list.texts.find((t) => t.text === "layers × 12");
  assert.ok(top && top.y >= 0 && top.y < 40, "at the upper edge");
});

test("what is pointed at is what is drawn there", async () => {
  const { scene, session } = await sceneOf(await load(transformer(3)), "all");
  const camera = new Camera(17, -23, 0.8);
  for (const g of session.visibleGroups(false)) {
    for (const item of session.membersOf(g)) {
      const p = scene.place(item);
      if (!p || (item >= scene.nodes && scene.open(p.view, p.index))) continue;
      const hit = hitTest(
        scene,
        camera,
        camera.x + (p.x + p.w / 2) * camera.scale,
        camera.y + (p.y + p.h / 2) * camera.scale,
      );
      assert.equal(hit?.item, item);
    }
  }
});

test("a glide starts where things were and ends where they are", async () => {
  const h = await load(transformer(2));
  const { scene, session } = await sceneOf(h, "folded");
  const item = session.membersOf(0)[0];
  const before = scene.place(item);
  session.setAll(true);
  await session.layOut();
  const u = session.takeUpdate();
  const tween = new Tween(scene, [0]);
  scene.apply(u);
  const after = scene.place(item);
  assert.ok(before && after);
  tween.setTime(0);
  assert.deepEqual([...tween.rectOf(after.view, after.index)].slice(0, 2), [before.x, before.y]);
  assert.equal(tween.setTime(1000), true);
  assert.deepEqual([...tween.rectOf(after.view, after.index)].slice(0, 2), [after.x, after.y]);
});

test("zooming keeps the point under the cursor", () => {
  const c = new Camera(10, 20, 0.5);
  const z = c.zoom(1.7, 300, 200);
  assert.ok(Math.abs(c.worldX(300) - z.worldX(300)) < 1e-9 && Math.abs(c.worldY(200) - z.worldY(200)) < 1e-9);
});

test("names in an SVG are text and nothing else", async () => {
  const h = await load({ nodes: [{ op: "<script>alert(1)</script>" }, { op: 'a & "b" \u0001', inputs: [0] }] });
  const { scene } = await sceneOf(h, "folded");
  const { list } = frame(scene, new Camera(20, 20, 1), true);
  const svg = svgOf(list, W, H, LIGHT.paper);
  assert.ok(svg.includes("&lt;script&gt;") && !svg.includes("<script"));
  assert.ok(svg.includes("a &amp; &quot;b&quot;"));
  assert.equal((svg.match(/<rect/g) ?? []).length >= 3, true);
});

test("beside a figure the second line ends with a whole word", async () => {
  const classes = { embed: "TokenEmbedding", head: "Head" };
  const { scene } = await sceneOf(await load({ ...transformer(12), classes }), "folded");
  const words = (figure: string): string[] => {
    const list = new DrawList(true);
    const overlay = { figure: () => figure };
    new FrameBuilder().build(list, scene, new Camera(20, 20, 1), W, H, LIGHT, { ...state, overlay });
    return [...svgOf(list, W, H, LIGHT.paper).matchAll(/<text[^>]*>([^<]*)</g)].map((m) => m[1]);
  };
  assert.ok(words("").includes("TokenEmbedding · Gather"), words("").join(" | "));
  assert.ok(words("12 ms").includes("TokenEmbedding"), words("12 ms").join(" | "));
});
