/** The drawing on the page: the scene and what is lit in it, what is pointed at, and when a frame is drawn. */

import type { SceneUpdate } from "../layout/scene_update";
import { Camera } from "./camera";
import { DrawList } from "./draw_list";
import { TextFit } from "./fonts";
import { FrameBuilder } from "./frame";
import type { FrameState, Link, Note, Overlay } from "./frame_state";
import { listenToHands, type Pointed } from "./hands";
import { hitTag, hitTest, type Hit, type TagHit } from "./hit";
import { MovingView, still } from "./moving_view";
import { toPng, toSvg, type Picture } from "./picture";
import { Surface } from "./surface";
import { LIGHT, type Theme } from "./theme";
import { Tween, TWEEN_MS } from "./tween";

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

export class GraphView extends MovingView implements Pointed {
  theme: Theme = LIGHT;
  private readonly surface: Surface;
  private builder = new FrameBuilder();
  private queued = false;
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
  private readonly resizer: ResizeObserver;
  /** Frames drawn and the time the last one took to prepare; the benchmark reads it. */
  readonly frames = { count: 0, ms: 0, visited: 0 };

  constructor(
    readonly host: HTMLElement,
    private readonly events: GraphViewEvents,
    preferCanvas = false,
  ) {
    super();
    this.surface = new Surface(
      host,
      preferCanvas,
      (canvas) => listenToHands(canvas, this, events),
      () => this.draw(performance.now()),
    );
    const ctx = document.createElement("canvas").getContext("2d");
    if (ctx) {
      const fit = new TextFit(ctx);
      this.builder = new FrameBuilder((text, px, face) => fit.width(text, px, face));
    }
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(host);
    this.resize();
  }

  get canvas(): HTMLCanvasElement {
    return this.surface.canvas;
  }

  /** Makes what draws; drawing does so too, but a page that opens has better times for it. */
  start(): void {
    this.surface.start();
  }

  get rendererKind(): string {
    this.start();
    return this.surface.renderer?.kind ?? "";
  }

  get size(): { width: number; height: number } {
    const { width, height } = this.surface;
    return { width, height };
  }

  /** Panels that come and go call it before a view is asked for. */
  resize(): void {
    this.surface.resize();
  }

  // -------------------------------------------------------------------------------- the scene
  /**
   * Takes a new drawing. `anchor` is an item whose top left corner keeps its place on screen; the
   * change is shown as a glide unless it replaces everything or `glide` is off: a glide explains where
   * things went only while the camera stays.
   */
  apply(update: SceneUpdate, anchor = -1, glide = true): void {
    this.land();
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
      if (tween) this.fly(to, TWEEN_MS);
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
    const { renderer, list, width, height } = this.surface;
    if (!renderer) return;
    const start = performance.now();
    let more = this.advance(now);
    if (this.tween) {
      if (this.tween.setTime(now - this.tweenStart)) this.tween = null;
      else more = true;
    }
    const state: FrameState = {
      facts: (item) => this.factsOf(item),
      selected: this.selected,
      hover: this.hovered,
      strokes: this.strokes,
      overlay: this.overlay,
      tween: this.tween,
      links: this.links,
      notes: this.notes,
    };
    this.builder.build(list, this.scene, this.camera, width, height, this.theme, state);
    renderer.draw(list, this.theme.paper);
    this.canvas.style.visibility = "";
    this.surface.check();
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

  // ------------------------------------------------------------------------------------- hands
  point(x: number, y: number): void {
    const hit = hitTest(this.scene, this.camera, x, y);
    const port = hitTag(this.scene, this.camera, x, y);
    if (port?.group !== this.port?.group || port?.edge !== this.port?.edge) {
      this.port = port;
      this.events.hoverPort?.(port);
    }
    // The sheet of an open group is ground, its header is not.
    this.setHover(hit && (!hit.open || hit.header) ? hit.item : -1, hit);
  }

  leave(): void {
    this.setHover(-1, null);
  }

  private setHover(item: number, hit: Hit | null): void {
    if (item === this.hovered) return;
    this.hovered = item;
    this.canvas.style.cursor = item >= 0 ? "pointer" : "";
    this.events.hover?.(item, hit);
    this.redraw();
  }

  // ----------------------------------------------------------------------------------- pictures
  /** The window as it stands, or the whole drawing at scale 1. */
  private picture(whole: boolean): Picture {
    const list = new DrawList(true);
    const r = this.scene.extent();
    const camera = whole ? new Camera(PICTURE_MARGIN, PICTURE_MARGIN, 1) : this.camera;
    const width = whole ? r.w + 2 * PICTURE_MARGIN : this.size.width;
    const height = whole ? r.h + 2 * PICTURE_MARGIN : this.size.height;
    const state: FrameState = {
      facts: whole ? undefined : (item) => this.facts.get(item) ?? [],
      selected: whole ? -1 : this.selected,
      hover: -1,
      strokes: whole ? null : this.strokes,
      overlay: this.overlay,
      tween: null,
      links: whole ? [] : this.links,
      notes: whole ? [] : this.notes,
    };
    new FrameBuilder(this.builder.textWidth).build(list, this.scene, camera, width, height, this.theme, state);
    return { list, width, height, paper: this.theme.paper };
  }

  toSvg(whole: boolean): string {
    return toSvg(this.picture(whole));
  }

  toPng(whole: boolean, ratio = 2): Promise<Blob> {
    return toPng(this.picture(whole), ratio);
  }

  dispose(): void {
    this.resizer.disconnect();
    this.surface.dispose();
  }
}
