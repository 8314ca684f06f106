/** The small picture of the whole: drawn when the drawing changes, a frame shows the window in it. */

import { Camera } from "./camera";
import { CanvasRenderer } from "./canvas2d";
import { DrawList } from "./draw_list";
import { FrameBuilder } from "./frame";
import type { GraphView } from "./graph_view";

const WIDTH = 176;
const HEIGHT = 112;
const MARGIN = 6;

export class Minimap {
  readonly element: HTMLElement;
  private readonly canvas = document.createElement("canvas");
  private readonly frame = document.createElement("div");
  private readonly renderer: CanvasRenderer;
  private readonly builder = new FrameBuilder();
  private readonly list = new DrawList(true);
  private camera = new Camera();
  private drawn = "";

  constructor(private readonly view: GraphView) {
    this.element = document.createElement("div");
    this.element.className = "minimap";
    this.element.hidden = true;
    this.element.setAttribute("aria-hidden", "true");
    this.frame.className = "minimap-frame";
    this.element.append(this.canvas, this.frame);
    this.canvas.style.width = `${WIDTH}px`;
    this.canvas.style.height = `${HEIGHT}px`;
    this.renderer = new CanvasRenderer(this.canvas, true);
    this.element.addEventListener("pointerdown", (e) => {
      e.preventDefault();
      this.element.setPointerCapture(e.pointerId);
      this.go(e);
    });
    this.element.addEventListener("pointermove", (e) => {
      if (e.buttons & 1) this.go(e);
    });
  }

  /** To be called after every frame of the view; redraws only when it is seen and the drawing itself changed. */
  update(): void {
    const { scene, theme } = this.view;
    const key = `${scene.version}/${theme.dark}`;
    const whole = scene.extent();
    const c = this.view.camera;
    const { width, height } = this.view.size;
    // A drawing that is all in view needs no map.
    this.element.hidden =
      c.worldX(0) <= 0 && c.worldY(0) <= 0 && c.worldX(width) >= whole.w && c.worldY(height) >= whole.h;
    if (this.element.hidden) return;
    if (key !== this.drawn) {
      this.drawn = key;
      this.camera = Camera.fit(whole, WIDTH, HEIGHT, MARGIN, 0.5);
      this.renderer.resize(WIDTH, HEIGHT, window.devicePixelRatio || 1);
      const state = { selected: -1, hover: -1, strokes: null, overlay: null, tween: null, links: [] };
      this.builder.build(this.list, scene, this.camera, WIDTH, HEIGHT, theme, state);
      const marks = this.list.runs.filter(([what]) => what !== "texts");
      this.list.runs.splice(0, this.list.runs.length, ...marks);
      this.renderer.draw(this.list, theme.paper);
    }
    const x0 = Math.max(0, this.camera.x + c.worldX(0) * this.camera.scale);
    const y0 = Math.max(0, this.camera.y + c.worldY(0) * this.camera.scale);
    const x1 = Math.min(WIDTH, this.camera.x + c.worldX(width) * this.camera.scale);
    const y1 = Math.min(HEIGHT, this.camera.y + c.worldY(height) * this.camera.scale);
    // Moved by transform: while panning the browser then neither lays out nor paints anything.
    const width0 = `${Math.round(Math.max(4, x1 - x0))}px`;
    const height0 = `${Math.round(Math.max(4, y1 - y0))}px`;
    const { style } = this.frame;
    if (style.width !== width0) style.width = width0;
    if (style.height !== height0) style.height = height0;
    style.transform = `translate(${x0}px, ${y0}px)`;
  }

  private go(e: PointerEvent): void {
    const r = this.element.getBoundingClientRect();
    const wx = this.camera.worldX(e.clientX - r.left);
    const wy = this.camera.worldY(e.clientY - r.top);
    const { width, height } = this.view.size;
    const s = this.view.camera.scale;
    this.view.go(new Camera(width / 2 - wx * s, height / 2 - wy * s, s), false);
  }
}
