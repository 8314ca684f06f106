/** What the page is doing: which file, which view of it, what is selected, and how to go back. */

import { Cancelled } from "../base/errors";
import { Emitter } from "../base/events";
import type { Progress } from "../base/rpc";
import type { OpenResult, ShowResult, ViewSpec } from "../engine/api";
import type { EngineClient } from "../engine/client";
import { startSpec } from "../engine/start_spec";
import type { Camera } from "../gl/camera";
import { measureFonts } from "../gl/fonts";
import type { Link } from "../gl/frame_state";
import type { GraphView } from "../gl/graph_view";
import { TAG } from "../layout/template";
import { IS_EXEMPLAR, IS_GROUP, IS_OPEN, LARGE } from "../layout/scene_update";
import { INSIDE } from "../model/inside";
import type { ItemName } from "../query/api";

export type AppEvents = {
  /** A file was opened; nothing is drawn yet. */
  opened: { readonly name: string; readonly info: OpenResult };
  /** A view stands on the screen. */
  shown: { readonly spec: ViewSpec; readonly result: ShowResult };
  /** An item was selected; -1 for none. */
  selected: number;
  /** A group was to be opened that holds more boxes than can be read; `wanted` is what was looked for in it, or -1. */
  large: { readonly item: number; readonly state: 1 | 2; readonly total: number; readonly wanted: number };
  hovered: number;
  /** Work that takes long enough to be told of; null when done. */
  progress: Progress | null;
  failed: Error;
  /** The drawing was moved, zoomed or redrawn. */
  moved: Camera;
  theme: "light" | "dark";
};

interface Step {
  readonly spec: ViewSpec;
  readonly camera: Camera;
}

export class App {
  readonly events = new Emitter<AppEvents>();
  info: OpenResult | null = null;
  spec: ViewSpec | null = null;
  result: ShowResult | null = null;
  selected = -1;
  fileName = "";
  /** Set by the shell, which needs the app for its handlers. */
  view!: GraphView;
  private running: AbortController | null = null;
  private selectedLinks: Link[] = [];
  private portAsked = 0;
  private past: Step[] = [];
  private future: Step[] = [];

  constructor(readonly engine: EngineClient) {}

  /** Opens a recording; `start` is the view to begin with, where it differs from the first view of the last stage. */
  async open(bytes: Uint8Array, name: string, start: Partial<ViewSpec> = {}): Promise<void> {
    const ctx = document.createElement("canvas").getContext("2d");
    if (!ctx) throw new Error("This browser has no canvas.");
    const buffer =
      bytes.buffer.byteLength === bytes.byteLength
        ? (bytes.buffer as ArrayBuffer)
        : (bytes.slice().buffer as ArrayBuffer);
    const onProgress = (p: Progress): void => this.events.emit("progress", p);
    try {
      const opening = this.engine.call(
        "open",
        { bytes: buffer, font: measureFonts(ctx) },
        { transfer: [buffer], onProgress },
      );
      // What fails here fails again when it is shown, and is told then.
      this.engine.call("warm", { start }, { onProgress }).catch(() => undefined);
      this.view.start();
      this.info = await opening;
    } catch (e) {
      this.events.emit("progress", null);
      this.events.emit("failed", e as Error);
      return;
    }
    this.fileName = name;
    this.spec = null;
    this.selected = -1;
    this.past = [];
    this.future = [];
    this.events.emit("opened", { name, info: this.info });
    // Panels take their room when they know the file; the first view must fit what they leave.
    this.view.resize();
    await this.show(startSpec(this.info.header, start), { fit: true });
  }

  /**
   * Shows a view. `anchor` is an item that keeps its place on screen; `fit` frames the whole; `quiet`
   * leaves the undo history alone. A view asked for while another is in the making replaces it.
   */
  async show(spec: ViewSpec, how: { anchor?: number; fit?: boolean; quiet?: boolean } = {}): Promise<boolean> {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    const { width, height } = this.view.size;
    const before = this.selected;
    let now: number;
    let result: ShowResult;
    try {
      // Views number their items anew: what is selected goes by its name, within one graph.
      const name = before >= 0 && this.spec?.graph === spec.graph ? await this.nameOf(before, running.signal) : null;
      const showing = this.engine.call(
        "show",
        { view: spec, width, height },
        { signal: running.signal, onProgress: (p) => this.events.emit("progress", p) },
      );
      const finding = name
        ? this.engine.call("itemsNamed", { names: [name] }, { signal: running.signal }).catch(() => [-1])
        : [-1];
      result = await showing;
      [now] = await finding;
    } catch (e) {
      if (e instanceof Cancelled) return false;
      this.events.emit("progress", null);
      this.events.emit("failed", e as Error);
      return false;
    } finally {
      if (this.running === running) this.running = null;
    }
    if (this.spec && !how.quiet) {
      this.past.push({ spec: this.spec, camera: this.view.camera });
      if (this.past.length > 200) this.past.shift();
      this.future = [];
    }
    this.spec = { ...spec, grouping: result.grouping, fold: result.fold };
    this.result = result;
    const kept = this.selected === before;
    if (kept && now !== before) this.view.select((this.selected = now));
    const refit = this.view.fitted;
    this.view.apply(result.update, how.anchor ?? -1, !how.fit && !refit);
    if (how.fit && spec.fold.base === "first") this.view.fitReadable();
    else if (how.fit) this.view.fit(false);
    // What was seen whole is seen whole again; otherwise what was opened comes into view.
    else if (refit && !how.quiet) this.view.fit();
    else if (how.anchor !== undefined && !how.quiet) this.view.bringIn(how.anchor);
    this.events.emit("progress", null);
    this.events.emit("shown", { spec: this.spec, result });
    if (this.selected >= 0 && this.view.scene.place(this.selected)) {
      void this.showStrokes(this.selected);
      if (kept && now !== before) this.events.emit("selected", now);
    } else if (this.selected >= 0 || before >= 0) this.select(-1);
    return true;
  }

  private async nameOf(item: number, signal: AbortSignal): Promise<ItemName | null> {
    try {
      return await this.engine.call("nameOf", { item }, { signal });
    } catch (e) {
      if (e instanceof Cancelled) throw e;
      return null; // The failure is told by what is asked next.
    }
  }

  cancel(): void {
    this.running?.abort();
    this.running = null;
    this.events.emit("progress", null);
  }

  // -------------------------------------------------------------------------------- unfolding
  /** Folded opens (one of identical ones stands for all), open folds. */
  toggle(item: number): Promise<boolean> {
    const at = this.view.scene.place(item);
    if (!at || !this.spec) return Promise.resolve(false);
    const flags = at.view.batch.flags[at.view.first + at.index];
    const key = at.view.batch.key[at.view.first + at.index];
    if (key >= INSIDE) return this.setInside(item, (flags & IS_OPEN) === 0);
    if (!(flags & IS_GROUP)) return Promise.resolve(false);
    return this.setFold(item, flags & IS_OPEN ? 0 : 1);
  }

  /** Puts the ops of a node's inside in its place, or the node back; in all identical groups at once. */
  async setInside(item: number, open: boolean): Promise<boolean> {
    const keys = await this.engine.call("insides", { item });
    return (
      keys.length > 0 &&
      this.changeFolds(
        keys.map((k) => [k, open ? 1 : 0]),
        item,
      )
    );
  }

  /** 0 folded, 1 open, 2 open with each of identical members. A group too large to read is listed instead, unless `anyway`. */
  async setFold(item: number, state: 0 | 1 | 2, anyway = false): Promise<boolean> {
    const at = this.view.scene.place(item);
    if (!at || !this.spec) return false;
    const slot = at.view.first + at.index;
    if (state !== 0 && !anyway && at.view.batch.size[slot] > LARGE) {
      const { total } = await this.engine.call("members", { item, each: state === 2, from: 0, count: 0 });
      if (total > LARGE) {
        this.events.emit("large", { item, state, total, wanted: -1 });
        return false;
      }
    }
    const key = at.view.batch.key[slot];
    return key >= INSIDE ? this.setInside(item, state !== 0) : this.changeFolds([[key, state]], item);
  }

  isExemplar(item: number): boolean {
    const at = this.view.scene.place(item);
    return at !== null && (at.view.batch.flags[at.view.first + at.index] & IS_EXEMPLAR) !== 0;
  }

  changeFolds(changes: readonly (readonly [number, number])[], anchor = -1): Promise<boolean> {
    const spec = this.spec;
    if (!spec) return Promise.resolve(false);
    const all = new Map(spec.fold.changes.map(([k, s]) => [k, s]));
    for (const [k, s] of changes) {
      all.delete(k);
      if (s !== 0 || k < INSIDE) all.set(k, s);
    }
    // A flat drawing has no groups to unfold; nodes with an inside it has.
    const base = spec.fold.base === "flat" && changes.some(([k]) => k < INSIDE) ? "none" : spec.fold.base;
    return this.show({ ...spec, fold: { base, changes: [...all] } }, { anchor });
  }

  unfoldAll(): Promise<boolean> {
    return this.rebase("all");
  }

  foldAll(): Promise<boolean> {
    return this.rebase("none");
  }

  flatten(): Promise<boolean> {
    return this.rebase("flat");
  }

  /** As when the file was opened. */
  firstView(): Promise<boolean> {
    return this.rebase("first");
  }

  private rebase(base: "all" | "none" | "flat" | "first"): Promise<boolean> {
    return this.spec ? this.show({ ...this.spec, fold: { base, changes: [] } }, { fit: true }) : Promise.resolve(false);
  }

  setGrouping(grouping: string): Promise<boolean> {
    return this.spec
      ? this.show({ ...this.spec, grouping, fold: { base: "first", changes: [] } }, { fit: true })
      : Promise.resolve(false);
  }

  setAcross(across: boolean): Promise<boolean> {
    return this.spec ? this.show({ ...this.spec, across }, { fit: true }) : Promise.resolve(false);
  }

  /** Another stage of the same graph; what is unfolded stays so. */
  setStage(stage: number, diff = this.spec?.diff ?? false): Promise<boolean> {
    return this.spec ? this.show({ ...this.spec, stage, diff }) : Promise.resolve(false);
  }

  // --------------------------------------------------------------------------------- selecting
  select(item: number): void {
    this.selected = item;
    this.view.select(item);
    this.selectedLinks = [];
    this.view.setLinks([]);
    this.view.setNotes([]);
    if (item < 0) this.view.setStrokes(null);
    else void this.showStrokes(item);
    this.events.emit("selected", item);
  }

  private async showStrokes(item: number): Promise<void> {
    const pairs = await this.engine.call("strokes", { item });
    if (this.selected !== item) return;
    this.view.setStrokes(pairs);
    this.view.setLinks((this.selectedLinks = await this.linksOf(pairs)));
    const notes = await this.engine.call("decisions", { item });
    if (this.selected === item) this.view.setNotes(notes);
  }

  /** Named ports among some edges, each with the item that its tensor comes from. */
  private async linksOf(pairs: Int32Array): Promise<Link[]> {
    const ports: { group: number; edge: number }[] = [];
    for (let i = 0; i < pairs.length && ports.length < 300; i += 2) {
      const shape = this.view.scene.group(pairs[i])?.shape;
      if (shape?.edgeKind[pairs[i + 1]] === TAG) ports.push({ group: pairs[i], edge: pairs[i + 1] });
    }
    const from = await Promise.all(ports.map((p) => this.engine.call("portSource", p)));
    return ports.map((p, i) => ({ ...p, from: from[i] }));
  }

  /** Asks what boxes that came close have to say; an answer for a view that is gone is dropped. */
  async tellFacts(items: Int32Array): Promise<void> {
    const { result } = this;
    const lines = await this.engine.call("facts", { items });
    if (this.result === result) this.view.setFacts(items, lines);
  }

  /** Draws the edge of a named port while it is pointed at. */
  async pointAtPort(port: { readonly group: number; readonly edge: number } | null): Promise<void> {
    const asked = ++this.portAsked;
    if (!port) {
      this.view.setLinks(this.selectedLinks);
      return;
    }
    const from = await this.engine.call("portSource", port);
    if (asked === this.portAsked) this.view.setLinks([...this.selectedLinks, { ...port, from }]);
  }

  /** Unfolds what hides an item, selects it and brings it into view. */
  async reveal(item: number): Promise<void> {
    if (!this.view.scene.place(item)) {
      const { changes, large, total } = await this.engine.call("reveal", { item });
      if (changes.length > 0 && !(await this.changeFolds(changes))) return;
      if (large >= 0) {
        this.view.flyTo(large);
        this.events.emit("large", { item: large, state: 1, total, wanted: item });
        return;
      }
    }
    this.select(item);
    this.view.flyTo(item);
  }

  // ------------------------------------------------------------------------------------- undo
  async undo(): Promise<void> {
    await this.stepTo(this.past, this.future);
  }

  async redo(): Promise<void> {
    await this.stepTo(this.future, this.past);
  }

  /** Goes to the last step of one list, view and camera, and notes the present one in the other. */
  private async stepTo(from: Step[], to: Step[]): Promise<void> {
    const step = from.pop();
    if (!step || !this.spec) return;
    const now: Step = { spec: this.spec, camera: this.view.camera };
    if (!(await this.show(step.spec, { quiet: true }))) return;
    to.push(now);
    this.view.go(step.camera, false);
  }
}
