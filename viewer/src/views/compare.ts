/** How two graphs or stages stand side by side: panned, unfolded and selected in step, differences marked on both. */

import { App } from "../app/app";
import { el } from "../base/dom";
import { count } from "../base/format";
import { startEngine } from "../engine/client";
import type { ViewSpec } from "../engine/api";
import { Camera } from "../gl/camera";
import { GraphView } from "../gl/graph_view";
import { scrollWithin } from "../panels/embedded";
import { Overlays } from "../panels/overlays";
import { button } from "../panels/parts";
import type { Difference, Matched } from "../query/matching";

export interface Loaded {
  readonly bytes: Uint8Array;
  readonly name: string;
}

export class Compare {
  readonly other: App;
  private readonly pane: HTMLElement;
  private readonly bars: readonly [HTMLElement, HTMLElement];
  private readonly told = el("span", { class: "told", role: "status" });
  private readonly overlays: Overlays;
  private readonly off: (() => void)[] = [];
  private last: [Camera, Camera] = [new Camera(), new Camera()];
  private busy = false;
  private matched: Matched | null = null;
  private at = -1;
  private readonly list = el("ol", { class: "differences", "aria-label": "Differences", hidden: true });
  private sync: { readonly left: ReadonlyMap<string, string>; readonly right: ReadonlyMap<string, string> } | null =
    null;

  constructor(
    private readonly app: App,
    private readonly host: HTMLElement,
    private readonly mine: Overlays,
    private readonly close: () => void,
  ) {
    this.other = new App(startEngine());
    const graph = el("div", { class: "stage" });
    this.bars = [el("div", { class: "pane-bar left-bar" }), el("div", { class: "pane-bar" })];
    this.pane = el("section", { class: "pane", "aria-label": "Second graph" }, this.bars[1], graph);
    host.after(this.pane);
    host.prepend(this.bars[0], this.list);
    host.classList.add("split");
    this.other.view = new GraphView(graph, {
      select: (i) => this.other.select(i),
      toggle: (i) => void this.other.toggle(i),
      moved: (c) => this.other.events.emit("moved", c),
    });
    this.other.view.setTheme(app.view.theme);
    this.overlays = new Overlays(this.other);
    const { events } = app;
    this.off.push(
      events.on("moved", () => this.follow(0)),
      this.other.events.on("moved", () => this.follow(1)),
      events.on("selected", (i) => void this.mirror(this.app, this.other, i)),
      this.other.events.on("selected", (i) => void this.mirror(this.other, this.app, i)),
      events.on("shown", () => void this.shown(this.app, this.other)),
      this.other.events.on("shown", () => void this.shown(this.other, this.app)),
      events.on("theme", () => this.other.view.setTheme(app.view.theme)),
    );
  }

  /** Fills the second pane; by default with the same graph a stage earlier, or with the file's next graph. */
  async open(file: Loaded, spec?: Partial<ViewSpec>): Promise<void> {
    const now = this.app.spec;
    const graphs = this.app.info?.header.graphs ?? [];
    if (!now) return;
    await this.readSync();
    let start: Partial<ViewSpec> = { ...now };
    const roots = graphs.map((g, i) => (g.parent < 0 ? i : -1)).filter((i) => i >= 0);
    const next = roots.find((i) => i > now.graph) ?? roots.find((i) => i !== now.graph);
    if (next !== undefined) {
      // Two files: what each came to in the end, side by side.
      const left = roots.find((i) => i < next && i <= now.graph) ?? now.graph;
      const last = (i: number): number => graphs[i].stages.length - 1;
      this.busy = true;
      if (left !== now.graph || now.stage !== last(left) || now.diff)
        await this.app.show(
          { ...now, graph: left, stage: last(left), diff: false, fold: { base: "first", changes: [] } },
          { fit: true },
        );
      this.busy = false;
      start = { graph: next, stage: last(next), grouping: now.grouping, across: now.across };
    } else if (graphs[now.graph].stages.length > 1) {
      // The way it came in on the left, the way it is now on the right.
      start = { ...now, diff: false };
      const left = Math.min(now.stage, 0);
      this.busy = true;
      if (now.stage > 0 || now.diff) await this.app.show({ ...now, stage: left, diff: false }, { fit: true });
      this.busy = false;
      start = { ...now, diff: false, stage: now.stage > 0 ? now.stage : graphs[now.graph].stages.length - 1 };
    }
    this.busy = true;
    await this.other.open(file.bytes, file.name, { ...start, ...spec });
    this.busy = false;
    this.app.view.fit(false);
    this.last = [this.app.view.camera, this.other.view.camera];
    await this.mark();
  }

  dispose(): void {
    for (const off of this.off) off();
    this.other.view.dispose();
    this.other.engine.stop();
    this.pane.remove();
    this.bars[0].remove();
    this.list.remove();
    this.host.classList.remove("split");
    this.mine.set("compare", null);
  }

  private get sameGraph(): boolean {
    return this.app.spec?.graph === this.other.spec?.graph;
  }

  // ------------------------------------------------------------------------------------ in step
  /** The same movement of the hand in both panes: whatever one camera did on screen, the other does too. */
  private follow(side: 0 | 1): void {
    const views = [this.app.view, this.other.view];
    const now = views[side].camera;
    const before = this.last[side];
    this.last[side] = now;
    if (this.busy || (now.x === before.x && now.y === before.y && now.scale === before.scale)) return;
    const k = now.scale / before.scale;
    const b = views[1 - side].camera;
    const moved = new Camera(k * b.x + (now.x - k * before.x), k * b.y + (now.y - k * before.y), k * b.scale);
    this.last[1 - side] = moved;
    views[1 - side].go(moved, false);
  }

  private async mirror(from: App, to: App, item: number): Promise<void> {
    if (this.busy || !to.spec) return;
    this.busy = true;
    try {
      if (item < 0) {
        to.select(-1);
        return;
      }
      let found = -1;
      const matched =
        this.matched && item < (from.result?.update.nodes ?? 0)
          ? (from === this.app ? this.matched.toRight : this.matched.toLeft)[item]
          : -1;
      if (this.sameGraph)
        [found] = await to.engine.call("itemsNamed", { names: [await from.engine.call("nameOf", { item })] });
      else if (matched >= 0 && !this.sync) found = matched;
      else {
        const key = await from.engine.call("likeOf", { item, byId: false });
        const map = from === this.app ? this.sync?.left : this.sync?.right;
        found = await to.engine.call("itemLike", { key: map?.get(key) ?? key, byId: false });
      }
      if (found < 0) to.select(-1);
      else if (to.view.scene.place(found)) {
        to.select(found);
        to.view.flyTo(found);
      } else await to.reveal(found);
    } finally {
      this.busy = false;
      this.last = [this.app.view.camera, this.other.view.camera];
    }
  }

  /** What was unfolded on one side unfolds on the other. */
  private async shown(from: App, to: App): Promise<void> {
    this.bar();
    const spec = from.spec;
    if (this.busy || !spec || !to.spec) return;
    this.busy = true;
    try {
      let changes = spec.fold.changes;
      if (!this.sameGraph) {
        const paths = await from.engine.call("pathsOf", { keys: changes.map(([k]) => k) });
        const keys = await to.engine.call("keysAt", { paths });
        changes = changes.map(([, v], i) => [keys[i], v] as const).filter(([k]) => k !== 0);
      }
      const camera = to.view.camera;
      await to.show({
        ...to.spec,
        grouping: spec.grouping,
        across: spec.across,
        fold: { base: spec.fold.base, changes },
      });
      to.view.go(camera, false);
    } finally {
      this.busy = false;
      this.last = [this.app.view.camera, this.other.view.camera];
    }
    await this.mark();
  }

  private async mark(): Promise<void> {
    const byId = this.sameGraph;
    const m = await this.app.engine.call("matchWith", { other: await this.other.engine.call("signature", { byId }) });
    const [left, right] = await Promise.all([
      this.app.engine.call("markItems", { mark: m.left }),
      this.other.engine.call("markItems", { mark: m.right }),
    ]);
    this.matched = m;
    this.at = -1;
    this.mine.set("compare", { mark: left });
    this.overlays.set("compare", { mark: right });
    const parts = [
      [m.onlyLeft, "only left"],
      [m.onlyRight, "only right"],
      [m.changed, "changed"],
    ] as const;
    this.told.textContent = parts.map(([n, w]) => `${count(n)} ${w}`).join(" · ");
    this.drawList();
    this.bar();
  }

  /** Model Explorer's mapping between the nodes of two graphs, where the file has one. */
  private async readSync(): Promise<void> {
    const left = new Map<string, string>();
    const right = new Map<string, string>();
    for (const json of await this.app.engine.call("extras", { kind: "sync" })) {
      try {
        const v = JSON.parse(json) as { mappingEntries?: { leftNodeIds?: unknown; rightNodeIds?: unknown }[] };
        for (const e of v.mappingEntries ?? []) {
          const l = Array.isArray(e.leftNodeIds) ? e.leftNodeIds.map(String) : [];
          const r = Array.isArray(e.rightNodeIds) ? e.rightNodeIds.map(String) : [];
          for (const x of l) if (r.length > 0) left.set(x, r[0]);
          for (const y of r) if (l.length > 0) right.set(y, l[0]);
        }
      } catch {
        // A mapping that cannot be read maps nothing; nodes are then matched by name.
      }
    }
    this.sync = left.size > 0 ? { left, right } : null;
  }

  // --------------------------------------------------------------------------------- differences
  /** To the next or previous difference; both panes show where it is, or the one that has it does. */
  private async walk(to: number): Promise<void> {
    const list = this.matched?.list ?? [];
    if (list.length === 0) return;
    this.at = (to + list.length) % list.length;
    const d = list[this.at];
    this.drawList();
    this.bar();
    if (d.left >= 0) await this.app.reveal(d.left);
    if (d.right >= 0 && d.left < 0) await this.other.reveal(d.right);
  }

  private drawList(): void {
    const list = this.matched?.list ?? [];
    const row = (d: Difference, i: number): HTMLElement => {
      const [sign, cls, side] =
        d.right < 0
          ? ["−", "removed", "only left"]
          : d.left < 0
            ? ["+", "added", "only right"]
            : ["~", "changed", d.what];
      return el(
        "li",
        {},
        el(
          "button",
          {
            type: "button",
            class: "difference",
            "aria-current": i === this.at ? "true" : "false",
            title: d.path,
            click: () => void this.walk(i),
          },
          el("span", { class: `sign ${cls}` }, sign),
          el("span", { class: "row-title" }, d.title),
          el("span", { class: "soft" }, side),
          el("span", { class: "soft difference-path" }, d.path),
        ),
      );
    };
    this.list.replaceChildren(
      ...list.slice(0, 500).map(row),
      ...(list.length > 500 ? [el("li", { class: "soft" }, `and ${count(list.length - 500)} more`)] : []),
    );
    scrollWithin(this.list, this.list.querySelector('[aria-current="true"]'));
  }

  // ---------------------------------------------------------------------------------------- bars
  private bar(): void {
    const some = (this.matched?.list.length ?? 0) > 0;
    const place = this.at >= 0 ? `${count(this.at + 1)} of ${count(this.matched?.list.length ?? 0)}` : "";
    this.bars[0].replaceChildren(
      ...this.chooser(this.app, "Left"),
      this.told,
      el("span", { class: "spring" }),
      ...(some
        ? [
            el("span", { class: "soft", role: "status" }, place),
            button("‹", "Previous difference", () => void this.walk(this.at < 0 ? -1 : this.at - 1), "icon small"),
            button("›", "Next difference", () => void this.walk(this.at + 1), "icon small"),
            button("List", "All differences, one by one", () => (this.list.hidden = !this.list.hidden)),
          ]
        : []),
    );
    this.bars[1].replaceChildren(
      ...this.chooser(this.other, "Right"),
      el("span", { class: "spring" }),
      el("button", { type: "button", title: "Back to one pane (s)", click: () => this.close() }, "Close"),
    );
  }

  private chooser(app: App, side: string): HTMLElement[] {
    const graphs = app.info?.header.graphs ?? [];
    const spec = app.spec;
    if (!spec) return [];
    const roots = graphs.map((g, i) => [g, i] as const).filter(([g]) => g.parent < 0);
    const out: HTMLElement[] = [];
    if (roots.length > 1) {
      const s = el(
        "select",
        { "aria-label": `${side} graph` },
        ...roots.map(([g, i]) => el("option", { value: i, selected: i === spec.graph }, g.name || `graph ${i}`)),
      );
      s.addEventListener("change", () => {
        const graph = Number(s.value);
        void app.show(
          { ...spec, graph, stage: graphs[graph].stages.length - 1, diff: false, fold: { base: "first", changes: [] } },
          { fit: true },
        );
      });
      out.push(s);
    }
    const stages = graphs[spec.graph].stages;
    if (stages.length > 1) {
      const s = el(
        "select",
        { "aria-label": `${side} stage` },
        ...stages.map((g, i) => el("option", { value: i, selected: i === spec.stage }, g.name)),
      );
      s.addEventListener("change", () => void app.setStage(Number(s.value), false));
      out.push(s);
    }
    return out;
  }
}
