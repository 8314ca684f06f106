/** What is drawn on: the canvas, its renderer, and their size; a plain canvas where WebGL2 fails. */

import { CanvasRenderer } from "./canvas2d";
import { DrawList } from "./draw_list";
import type { Renderer } from "./renderer";
import { WebGlRenderer } from "./webgl";

export class Surface {
  canvas: HTMLCanvasElement;
  list = new DrawList();
  width = 1;
  height = 1;
  renderer: Renderer | null = null;
  private checked = false;
  /** Size and pixel ratio that the renderer was told. */
  private measured = "";

  constructor(
    private readonly host: HTMLElement,
    private readonly preferCanvas: boolean,
    /** Called with each new canvas: a fall-back has another one. */
    private readonly made: (canvas: HTMLCanvasElement) => void,
    /** Called when the size changed: a resized canvas is blank until drawn. */
    private readonly resized: () => void,
  ) {
    this.canvas = this.addCanvas();
  }

  /**
   * Makes what draws. Browsers hold the page until their graphics process has answered, so this is best
   * called when the worker has been given something to do; drawing calls it too.
   */
  start(): void {
    if (this.renderer) return;
    const r = this.host.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    // Sized first: a context that is resized makes its buffers twice.
    this.canvas.width = Math.max(1, Math.round(r.width * ratio));
    this.canvas.height = Math.max(1, Math.round(r.height * ratio));
    this.use((this.preferCanvas ? null : WebGlRenderer.create(this.canvas)) ?? new CanvasRenderer(this.canvas));
  }

  /** Takes the host's size as it is now. */
  resize(): void {
    const r = this.host.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const size = `${r.width} ${r.height} ${ratio}`;
    if (size === this.measured) return;
    this.measured = size;
    this.width = Math.max(1, r.width);
    this.height = Math.max(1, r.height);
    this.renderer?.resize(this.width, this.height, ratio);
    this.resized();
  }

  /** After the first picture, when the answer no longer waits for the compiler: can the driver draw at all? */
  check(): void {
    if (this.checked || this.list.runs.length === 0 || !this.renderer) return;
    this.checked = true;
    if (this.renderer.sound()) return;
    // A driver that offers WebGL2 but can't compile the shaders: from now on the plain canvas draws.
    this.canvas.remove();
    this.canvas = this.addCanvas();
    this.use(new CanvasRenderer(this.canvas));
  }

  dispose(): void {
    this.renderer?.dispose();
    this.canvas.remove();
  }

  private use(renderer: Renderer): void {
    this.renderer = renderer;
    this.list = new DrawList(renderer.kind === "canvas2d");
    this.measured = "";
    this.resize();
  }

  /** A canvas has one kind of context for life, so changing the renderer means changing the canvas. */
  private addCanvas(): HTMLCanvasElement {
    const c = document.createElement("canvas");
    c.className = "graph-canvas";
    c.tabIndex = 0;
    c.setAttribute("role", "application");
    c.setAttribute("aria-label", "Graph");
    // An opaque canvas that nothing was drawn on is black.
    c.style.visibility = "hidden";
    c.addEventListener("webglcontextlost", (e) => e.preventDefault());
    c.addEventListener("webglcontextrestored", () => {
      this.renderer = WebGlRenderer.create(c) ?? this.renderer;
      this.measured = "";
      this.resize();
    });
    this.host.append(c);
    this.made(c);
    return c;
  }
}
