/** How a place becomes a link: graph, stage, grouping, what is unfolded, selection and camera, after the "#". */

import type { App } from "../app/app";
import type { FoldSpec, ViewSpec } from "../engine/api";
import { Camera } from "../gl/camera";
import type { ItemName } from "../query/api";

export interface Place {
  readonly spec: Partial<ViewSpec>;
  readonly selected: ItemName | null;
  readonly camera: Camera | null;
  readonly color: string;
  readonly query: string;
}

/** More folds than this make a link that no chat takes; the rest of the place still travels. */
const MOST_FOLDS = 600;

export function writePlace(
  spec: ViewSpec,
  selected: ItemName | null,
  camera: Camera,
  color: string,
  query: string,
): string {
  const p = new URLSearchParams();
  p.set("g", String(spec.graph));
  p.set("s", String(spec.stage));
  p.set("by", spec.grouping);
  if (spec.across) p.set("across", "1");
  if (spec.diff) p.set("diff", "1");
  if (spec.fold.changes.length <= MOST_FOLDS)
    p.set("f", `${spec.fold.base}.${spec.fold.changes.map(([k, v]) => `${k}_${v}`).join(".")}`);
  if (selected) p.set("at", "key" in selected ? `k${selected.key}` : `n${selected.node}`);
  p.set("c", [camera.x, camera.y, camera.scale * 1000].map((v) => Math.round(v)).join("_"));
  if (color) p.set("color", color);
  if (query) p.set("q", query);
  return p.toString();
}

export function readPlace(hash: string): Place | null {
  const p = new URLSearchParams(hash.replace(/^#/, ""));
  if (!p.has("g")) return null;
  const int = (name: string): number => {
    const v = Number(p.get(name));
    return Number.isInteger(v) && v >= 0 ? v : 0;
  };
  const at = /^([kn])(-?\d+)$/.exec(p.get("at") ?? "");
  const c = /^(-?\d+)_(-?\d+)_(\d+)$/.exec(p.get("c") ?? "");
  return {
    spec: {
      graph: int("g"),
      stage: int("s"),
      grouping: p.get("by") || "module",
      across: p.has("across"),
      diff: p.has("diff"),
      fold: readFold(p.get("f") ?? ""),
    },
    selected: at ? (at[1] === "k" ? { key: Number(at[2]) } : { node: Number(at[2]) }) : null,
    camera: c && Number(c[3]) > 0 ? new Camera(Number(c[1]), Number(c[2]), Number(c[3]) / 1000) : null,
    color: p.get("color") ?? "",
    query: p.get("q") ?? "",
  };
}

function readFold(text: string): FoldSpec {
  const [base, ...rest] = text.split(".");
  const changes: (readonly [number, number])[] = [];
  for (const r of rest) {
    const m = /^(-?\d+)_([012])$/.exec(r);
    if (m) changes.push([Number(m[1]), Number(m[2])]);
  }
  return { base: base === "all" || base === "none" || base === "flat" ? base : "first", changes };
}

export class Links {
  private timer = 0;
  private selected: ItemName | null = null;
  private written = "";
  private applying = false;

  constructor(
    private readonly app: App,
    private readonly color: () => string,
    private readonly query: () => string,
  ) {
    app.events.on("selected", (item) => void this.note(item));
    app.events.on("shown", () => this.later());
    app.events.on("moved", () => this.later());
  }

  private async note(item: number): Promise<void> {
    const name = item < 0 ? null : await this.app.engine.call("nameOf", { item });
    if (this.app.selected === item) this.selected = name;
    this.later();
  }

  later(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.write(), 400);
  }

  /** The address of what is on screen. */
  get hash(): string {
    const { spec, view } = this.app;
    return spec ? `#${writePlace(spec, this.selected, view.camera, this.color(), this.query())}` : "";
  }

  /** Puts the present place into the address bar. */
  write(): void {
    if (this.applying || !this.hash) return;
    this.written = this.hash;
    try {
      history.replaceState(null, "", this.written);
    } catch {
      // A page inside a notebook cell has no address of its own.
    }
  }

  /** Whether the address changed by somebody else's hand: a link pasted into this page. */
  get isForeign(): boolean {
    return location.hash !== "" && location.hash !== this.written;
  }

  async apply(place: Place): Promise<void> {
    this.applying = true;
    try {
      if (this.app.spec) await this.app.show({ ...this.app.spec, ...place.spec }, { fit: place.camera === null });
      await this.finish(place);
    } finally {
      this.applying = false;
    }
  }

  /** Selection and camera of a place whose view stands already. */
  async finish(place: Place): Promise<void> {
    if (place.selected) {
      const [item] = await this.app.engine.call("itemsNamed", { names: [place.selected] });
      if (item >= 0 && this.app.view.scene.place(item)) this.app.select(item);
      else if (item >= 0) await this.app.reveal(item);
    }
    if (place.camera) this.app.view.go(place.camera, false);
  }
}
