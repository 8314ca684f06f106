/** How the drawing behaves under the hand: pan, zoom, point, unfold, and when a frame is drawn. */

import type { SceneUpdate } from "../layout/scene_update";
import { Camera, type Rect } from "./camera";
import { CanvasRenderer } from "./canvas2d";
import { DrawList } from "./draw_list";
import { TextFit } from "./fonts";
import { FrameBuilder } from "./frame";
import type { FrameState, Link, Note, Overlay } from "./frame_state";
import { hitTag, hitTest, type Hit, type TagHit } from "./hit";
import type { Renderer } from "./renderer";
import { Scene } from "./scene";
import { svgOf } from "./svg";
import { LIGHT, type Theme } from "./theme";
import { Tween, TWEEN_MS } from "./tween";
import { WebGlRenderer } from "./webgl";

export interface GraphViewEvents {
  /** An item was pointed at and chosen; -1 for the empty ground. */
  select(item: number): void;
  /** Double click or Enter: unfold what is folded and the other way round. */
  toggle(item: number): void;
  hover?(item: number, hit: Hit | null): void;
  /** A named port is pointed at; null when no longer. */
  hoverPort?(port: TagHit | null): void;
  /** After every change of place or scale. */
  moved?(camera: Camera): void;
  menu?(item: number, x: number, y: number): void;
  /** Boxes came close enough to say more: what `setFacts` should be told about. */
  wanted?(items: Int32Array): void;
}

const PICTURE_MARGIN = 24;
/** Boxes have room for their words down to this scale. */
const READABLE = 0.7;

const still = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

export class GraphView {
  readonly scene = new Scene();
  canvas: HTMLCanvasElement;
  camera = new Camera();
  theme: Theme = LIGHT;
  /** Room that panels cover, so that "fit" uses what is free. */
  insets = { left: 0, right: 0, top: 0, bottom: 0 };
  private renderer: Renderer | null = null;
  private builder = new FrameBuilder();
  private list = new DrawList();
  private checked = false;
  private width = 1;
  private height = 1;
  /** Size and pixel ratio that the renderer was told. */
  private measured = "";
  private queued = false;
  private selected = -1;
  private hovered = -1;
  private strokes: Map<number, Set<number>> | null = null;
  private overlay: Overlay | null = null;
  private links: readonly Link[] = [];
  private notes: readonly Note[] = [];
  private port: TagHit | null = null;
  private readonly facts = new Map<number, readonly string[]>();
  private unknown: number[] = [];
  private tween: Tween | null = null;
  private tweenStart = 0;
  private flight: { from: Camera; to: Camera; start: number; ms: number } | null = null;
  /** Cameras that showed all of a drawing; one that is panned or zoomed is another camera. */
  private readonly fits = new WeakSet<Camera>();
  private readonly resizer: ResizeObserver;
  /** Frames drawn and the time the last one took to prepare; the benchmark reads it. */
  readonly frames = { count: 0, ms: 0, visited: 0 };

  constructor(
    readonly host: HTMLElement,
    private readonly events: GraphViewEvents,
    private readonly preferCanvas = false,
  ) {
    this.canvas = this.addCanvas();
    const ctx = document.createElement("canvas").getContext("2d");
    if (ctx) {
      const fit = new TextFit(ctx);
      this.builder = new FrameBuilder((text, px, face) => fit.width(text, px, face));
    }
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(host);
    this.resize();
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
    this.renderer = (this.preferCanvas ? null : WebGlRenderer.create(this.canvas)) ?? new CanvasRenderer(this.canvas);
    this.list = new DrawList(this.renderer.kind === "canvas2d");
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
    this.listen(c);
    return c;
  }

  /** A driver that offers WebGL2 but can't compile the shaders: from now on the plain canvas draws. */
  private fallBack(): void {
    this.canvas.remove();
    this.canvas = this.addCanvas();
    this.renderer = new CanvasRenderer(this.canvas);
    this.list = new DrawList(true);
    this.measured = "";
    this.resize();
  }

  get rendererKind(): string {
    this.start();
    return this.renderer?.kind ?? "";
  }

  get size(): { width: number; height: number } {
    return { width: this.width, height: this.height };
  }

  // -------------------------------------------------------------------------------- the scene
  /**
   * Takes a new drawing. `anchor` is an item whose top left corner keeps its place on screen; the
   * change is shown as a glide unless it replaces everything or `glide` is off: a glide explains where
   * things went only while the camera stays.
   */
  apply(update: SceneUpdate, anchor = -1, glide = true): void {
    if (this.flight) {
      this.camera = this.flight.to;
      this.flight = null;
    }
    // Items are numbered anew after a reset; the group in the middle of the window is found again by its key.
    const key = update.reset ? (this.named(anchor) ?? this.middleGroup()) : null;
    const before = key ? this.scene.place(key.item) : anchor >= 0 ? this.scene.place(anchor) : null;
    let tween: Tween | null = null;
    if (glide && !update.reset && !still()) {
      const groups: number[] = [];
      for (let i = 0; i < update.groups.length && groups.length < 500; i += 3) groups.push(update.groups[i]);
      tween = new Tween(this.scene, groups);
    }
    this.scene.apply(update);
    if (update.reset) this.facts.clear();
    const after = key ? this.scene.place(this.scene.itemOfKey(key.key)) : anchor >= 0 ? this.scene.place(anchor) : null;
    if (before && after) {
      const s = this.camera.scale;
      const to = this.camera.pan((before.x - after.x) * s, (before.y - after.y) * s);
      // The glide moves boxes in world space; moving the camera along with it holds the anchor still.
      if (tween) this.flight = { from: this.camera, to, start: performance.now(), ms: TWEEN_MS };
      else this.camera = to;
    }
    this.tween = tween;
    this.tweenStart = performance.now();
    if (tween) tween.setTime(0);
    this.setStrokes(null);
    this.links = [];
    this.notes = [];
    this.port = null;
    this.redraw();
  }

  /** An item that is found again after a reset; null for plain nodes. */
  private named(item: number): { item: number; key: number } | null {
    const at = item >= 0 ? this.scene.place(item) : null;
    const key = at ? at.view.batch.key[at.view.first + at.index] : 0;
    return key !== 0 ? { item, key } : null;
  }

  /** The innermost group around the middle of the window. */
  private middleGroup(): { item: number; key: number } | null {
    const free = this.free();
    const hit = hitTest(this.scene, this.camera, free.x + free.w / 2, free.y + free.h / 2);
    if (!hit) return null;
    if (hit.group) return { item: hit.item, key: hit.view.batch.key[hit.view.first + hit.index] };
    const holder = hit.view.group;
    const at = holder > 0 ? this.scene.place(this.scene.nodes + holder) : null;
    return at ? { item: at.item, key: at.view.batch.key[at.view.first + at.index] } : null;
  }

  setOverlay(overlay: Overlay | null): void {
    this.overlay = overlay;
    this.redraw();
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    this.redraw();
  }

  select(item: number): void {
    this.selected = item;
    this.redraw();
  }

  /** Edges to bring forward, as pairs group, edge; null gives all the same weight. */
  setStrokes(pairs: Int32Array | null): void {
    this.strokes = null;
    if (pairs && pairs.length > 0) {
      this.strokes = new Map();
      for (let i = 0; i < pairs.length; i += 2) {
        let set = this.strokes.get(pairs[i]);
        if (!set) this.strokes.set(pairs[i], (set = new Set()));
        set.add(pairs[i + 1]);
      }
    }
    this.redraw();
  }

  /** Edges to named ports, drawn while somebody points at one end. */
  setLinks(links: readonly Link[]): void {
    if (links.length === 0 && this.links.length === 0) return;
    this.links = links;
    this.redraw();
  }

  /** Texts on edges. */
  setNotes(notes: readonly Note[]): void {
    if (notes.length === 0 && this.notes.length === 0) return;
    this.notes = notes;
    this.redraw();
  }

  // ------------------------------------------------------------------------------- the camera
  private free(): Rect {
    const { left, right, top, bottom } = this.insets;
    return { x: left, y: top, w: Math.max(50, this.width - left - right), h: Math.max(50, this.height - top - bottom) };
  }

  /** Whether all of the drawing was brought into the window and nobody has moved it since. */
  get fitted(): boolean {
    return this.fits.has(this.flight?.to ?? this.camera);
  }

  fit(animated = true): void {
    const free = this.free();
    const c = Camera.fit(this.scene.extent(), free.w, free.h, 24, 1.25);
    this.goFitted(new Camera(c.x + free.x, c.y + free.y, c.scale), animated);
  }

  private goFitted(to: Camera, animated: boolean): void {
    this.fits.add(to);
    this.go(to, animated);
  }

  /** Moves no more than needed to show an item that was opened; what is larger than the window is made to fit. */
  bringIn(item: number, animated = true): void {
    const p = this.scene.place(item);
    if (!p) return;
    const free = this.free();
    const now = this.flight?.to ?? this.camera;
    const margin = 16;
    const scale = Math.min(now.scale, (free.w - 2 * margin) / p.w, (free.h - 2 * margin) / p.h);
    const shift = (at: number, size: number, from: number, room: number): number => {
      const low = from + margin;
      const high = from + room - margin - size;
      return Math.min(Math.max(at, low), Math.max(low, high)) - at;
    };
    const k = scale / now.scale;
    // Scaled around the item's corner, then moved by what is still missing.
    const x = now.x + p.x * now.scale;
    const y = now.y + p.y * now.scale;
    const dx = shift(x, p.w * scale, free.x, free.w);
    const dy = shift(y, p.h * scale, free.y, free.h);
    if (k === 1 && dx === 0 && dy === 0) return;
    this.go(new Camera(x + dx - p.x * scale, y + dy - p.y * scale, scale), animated);
  }

  /** As `fit`, but in a small window rather cut off than too small to read, as long as little is cut off. */
  fitReadable(): void {
    const free = this.free();
    const { w, h } = this.scene.extent();
    const scale = Math.min(free.w / (w + 48), free.h / (h + 48));
    if (scale >= READABLE || scale * 3 < READABLE) return this.fit(false);
    const c = new Camera(free.x + (free.w - w * READABLE) / 2, free.y + 24, READABLE);
    this.goFitted(w * READABLE > free.w ? new Camera(free.x + 24, c.y, READABLE) : c, false);
  }

  /** Brings a rectangle of the drawing into the free part of the window. */
  frame(r: Rect, animated = true, most = 1): void {
    const free = this.free();
    const c = Camera.fit(r, free.w, free.h, 24, most);
    this.go(new Camera(c.x + free.x, c.y + free.y, c.scale), animated);
  }

  /** Brings an item to the middle at a readable scale, moving no more than needed. */
  flyTo(item: number, animated = true): boolean {
    const p = this.scene.place(item);
    if (!p) return false;
    const free = this.free();
    const scale = Math.min(Math.max(this.camera.scale, 0.92), Math.max(0.2, Math.min((free.w - 60) / p.w, (free.h - 60) / p.h, 1.2)));
    const x = free.x + free.w / 2 - (p.x + p.w / 2) * scale;
    const y = free.y + free.h / 2 - (p.y + p.h / 2) * scale;
    this.go(new Camera(x, y, scale), animated);
    return true;
  }

  go(to: Camera, animated: boolean): void {
    if (animated && !still()) this.flight = { from: this.camera, to, start: performance.now(), ms: 200 };
    else {
      this.flight = null;
      this.camera = to;
    }
    this.redraw();
  }

  zoomBy(factor: number): void {
    const free = this.free();
    this.flight = null;
    this.camera = this.camera.zoom(factor, free.x + free.w / 2, free.y + free.h / 2);
    this.redraw();
  }

  // ------------------------------------------------------------------------------------ frames
  redraw(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame((now) => {
      this.queued = false;
      this.draw(now);
    });
  }

  private draw(now: number): void {
    // The page's own ground shows until there is something to draw: an empty frame costs as much as a full one.
    if (!this.scene.root) return;
    this.start();
    if (!this.renderer) return;
    const start = performance.now();
    let more = false;
    if (this.tween) {
      if (this.tween.setTime(now - this.tweenStart)) this.tween = null;
      else more = true;
    }
    if (this.flight) {
      const p = Math.min(1, Math.max(0, (now - this.flight.start) / this.flight.ms));
      if (p >= 1) {
        this.camera = this.flight.to;
        this.flight = null;
      } else {
        this.camera = Camera.between(this.flight.from, this.flight.to, 1 - (1 - p) ** 3);
        more = true;
      }
    }
    const state: FrameState = {
      facts: (item) => this.factsOf(item), selected: this.selected, hover: this.hovered, strokes: this.strokes, overlay: this.overlay, tween: this.tween,
      links: this.links, notes: this.notes,
    };
    this.builder.build(this.list, this.scene, this.camera, this.width, this.height, this.theme, state);
    this.renderer.draw(this.list, this.theme.paper);
    this.canvas.style.visibility = "";
    if (!this.checked && this.list.runs.length > 0) {
      // Asked after the first picture, when the answer no longer waits for the compiler.
      this.checked = true;
      if (!this.renderer.sound()) this.fallBack();
    }
    this.frames.count++;
    this.frames.visited = this.builder.visited;
    this.frames.ms = performance.now() - start;
    this.events.moved?.(this.camera);
    if (this.unknown.length > 0) this.events.wanted?.(Int32Array.from(this.unknown.splice(0)));
    if (more) this.redraw();
  }

  private factsOf(item: number): readonly string[] {
    const known = this.facts.get(item);
    if (known) return known;
    this.facts.set(item, []);
    this.unknown.push(item);
    return [];
  }

  /** Further lines for some items, shown where there is room. */
  setFacts(items: Int32Array, lines: readonly (readonly string[])[]): void {
    items.forEach((item, i) => this.facts.set(item, lines[i]));
    this.redraw();
  }

  /** Takes the host's size as it is now; panels that come and go call it before a view is asked for. */
  resize(): void {
    const r = this.host.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const size = `${r.width} ${r.height} ${ratio}`;
    if (size === this.measured) return;
    this.measured = size;
    this.width = Math.max(1, r.width);
    this.height = Math.max(1, r.height);
    this.renderer?.resize(this.width, this.height, ratio);
    // A resized canvas is blank until drawn, so this frame must not wait.
    this.draw(performance.now());
  }

  // ------------------------------------------------------------------------------------- hands
  private listen(c: HTMLCanvasElement): void {
    c.addEventListener(
      "wheel",
      (e) => {
        e.preventDefault();
        this.flight = null;
        const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? this.height : 1;
        if (e.ctrlKey || e.metaKey) this.camera = this.camera.zoom(Math.exp(-e.deltaY * unit * (Math.abs(e.deltaY) < 30 ? 0.01 : 0.0022)), e.offsetX, e.offsetY);
        else if (e.shiftKey && e.deltaX === 0) this.camera = this.camera.pan(-e.deltaY * unit, 0);
        else this.camera = this.camera.pan(-e.deltaX * unit, -e.deltaY * unit);
        this.redraw();
      },
      { passive: false },
    );
    let drag: { x: number; y: number; moved: boolean; id: number } | null = null;
    const touches = new Map<number, { x: number; y: number }>();
    c.addEventListener("pointerdown", (e) => {
      if (e.button > 1) return;
      c.focus({ preventScroll: true });
      c.setPointerCapture(e.pointerId);
      touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
      drag = { x: e.offsetX, y: e.offsetY, moved: false, id: e.pointerId };
    });
    c.addEventListener("pointermove", (e) => {
      const before = touches.get(e.pointerId);
      if (before && touches.size === 2) {
        const other = [...touches].find(([id]) => id !== e.pointerId)?.[1];
        if (other) {
          const d0 = Math.hypot(before.x - other.x, before.y - other.y) || 1;
          const d1 = Math.hypot(e.offsetX - other.x, e.offsetY - other.y) || 1;
          this.camera = this.camera.zoom(d1 / d0, (e.offsetX + other.x) / 2, (e.offsetY + other.y) / 2);
          this.redraw();
        }
        touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
        if (drag) drag.moved = true;
        return;
      }
      if (before) touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
      if (drag && drag.id === e.pointerId) {
        const dx = e.offsetX - drag.x;
        const dy = e.offsetY - drag.y;
        if (!drag.moved && Math.hypot(dx, dy) < 4) return;
        drag.moved = true;
        c.classList.add("dragging");
        this.flight = null;
        this.camera = this.camera.pan(dx, dy);
        drag.x = e.offsetX;
        drag.y = e.offsetY;
        this.redraw();
        return;
      }
      this.point(e.offsetX, e.offsetY);
    });
    const end = (e: PointerEvent): void => {
      touches.delete(e.pointerId);
      c.classList.remove("dragging");
      if (drag && !drag.moved && e.type === "pointerup") {
        const hit = hitTest(this.scene, this.camera, e.offsetX, e.offsetY);
        this.events.select(hit ? hit.item : -1);
      }
      drag = null;
    };
    c.addEventListener("pointerup", end);
    c.addEventListener("pointercancel", end);
    c.addEventListener("pointerleave", () => this.setHover(-1, null));
    c.addEventListener("dblclick", (e) => {
      const hit = hitTest(this.scene, this.camera, e.offsetX, e.offsetY);
      if (hit?.unfolds) this.events.toggle(hit.item);
    });
    c.addEventListener("contextmenu", (e) => {
      if (!this.events.menu) return;
      e.preventDefault();
      const hit = hitTest(this.scene, this.camera, e.offsetX, e.offsetY);
      this.events.menu(hit ? hit.item : -1, e.clientX, e.clientY);
    });
  }

  private point(x: number, y: number): void {
    const hit = hitTest(this.scene, this.camera, x, y);
    const port = hitTag(this.scene, this.camera, x, y);
    if (port?.group !== this.port?.group || port?.edge !== this.port?.edge) {
      this.port = port;
      this.events.hoverPort?.(port);
    }
    // The sheet of an open group is ground, its header is not.
    this.setHover(hit && (!hit.open || hit.header) ? hit.item : -1, hit);
  }

  private setHover(item: number, hit: Hit | null): void {
    if (item === this.hovered) return;
    this.hovered = item;
    this.canvas.style.cursor = item >= 0 ? "pointer" : "";
    this.events.hover?.(item, hit);
    this.redraw();
  }

  // ----------------------------------------------------------------------------------- pictures
  /** The window as it stands, or the whole drawing at scale 1, as marks in one piece. */
  private picture(whole: boolean): { list: DrawList; width: number; height: number } {
    const list = new DrawList(true);
    const r = this.scene.extent();
    const camera = whole ? new Camera(PICTURE_MARGIN, PICTURE_MARGIN, 1) : this.camera;
    const width = whole ? r.w + 2 * PICTURE_MARGIN : this.width;
    const height = whole ? r.h + 2 * PICTURE_MARGIN : this.height;
    const state: FrameState = { facts: whole ? undefined : (item) => this.facts.get(item) ?? [], selected: -1, hover: -1, strokes: whole ? null : this.strokes, overlay: this.overlay, tween: null, links: whole ? [] : this.links, notes: whole ? [] : this.notes };
    new FrameBuilder(this.builder.textWidth).build(list, this.scene, camera, width, height, this.theme, state);
    return { list, width, height };
  }

  toSvg(whole: boolean): string {
    const { list, width, height } = this.picture(whole);
    return svgOf(list, width, height, this.theme.paper);
  }

  /** Scaled down where a browser could not hold the picture (16,384 pixels a side, 64 million in all). */
  async toPng(whole: boolean, ratio = 2): Promise<Blob> {
    const { list, width, height } = this.picture(whole);
    const scale = Math.min(ratio, 16384 / width, 16384 / height, Math.sqrt(64e6 / (width * height)));
    const canvas = document.createElement("canvas");
    const renderer = new CanvasRenderer(canvas);
    renderer.resize(width, height, scale);
    renderer.draw(list, this.theme.paper);
    return new Promise((resolve, reject) => canvas.toBlob((b) => (b ? resolve(b) : reject(new Error("The picture is too large for this browser; export the view instead."))), "image/png"));
  }

  dispose(): void {
    this.resizer.disconnect();
    this.renderer?.dispose();
    this.canvas.remove();
  }
}
