/** The frame of the page: toolbar, the graph, and the places where panels stand. */

import { el } from "../base/dom";
import { GlassError } from "../base/errors";
import { count } from "../base/format";
import { GraphView } from "../gl/graph_view";
import { Minimap } from "../gl/minimap";
import { DARK, LIGHT } from "../gl/theme";
import type { App } from "./app";

/** Where panels put themselves. Each is empty and takes no room until something is in it. */
export interface Slots {
  readonly toolbar: HTMLElement;
  /** A line of its own over the graph and its panels: what says where one is covers nothing. */
  readonly path: HTMLElement;
  readonly left: HTMLElement;
  readonly right: HTMLElement;
  readonly bottom: HTMLElement;
  /** Over the graph: minimap, legend, palette. */
  readonly over: HTMLElement;
}

export class Shell {
  readonly slots: Slots;
  /** What holds the drawing; a second one can stand beside it. */
  readonly main: HTMLElement;
  private minimap: Minimap | null = null;
  private readonly system = matchMedia("(prefers-color-scheme: dark)");
  private chosen = false;
  private readonly title = el("h1", { class: "file-name" });
  private readonly counts = el("span", { class: "counts" });
  private readonly grouping = el("select", { "aria-label": "Group by" });
  private readonly status = el("div", { class: "status", role: "status", hidden: true });
  private readonly empty = el("p", { class: "empty", hidden: true }, "This graph has no nodes.");
  private readonly problem = el("div", { class: "problem", role: "alert", hidden: true });

  constructor(
    private readonly app: App,
    host: HTMLElement,
  ) {
    // On a narrow page these are found in the menu alone.
    const button = (text: string, title: string, run: () => void): HTMLButtonElement =>
      el("button", { type: "button", class: "wide-only", title, click: run }, text);
    const extra = el("div", { class: "slot" });
    const toolbar = el(
      "div",
      { class: "toolbar" },
      el("span", { class: "brand" }, "Glasshouse"),
      this.title,
      el("label", { class: "field" }, "Group by ", this.grouping),
      el("span", { class: "spring" }),
      extra,
      button("Unfold all", "Unfold every group (e)", () => void app.unfoldAll()),
      button("Fold all", "Fold every group (c)", () => void app.foldAll()),
      button("Flatten", "Show all nodes without groups", () => void app.flatten()),
      button("Fit", "Show the whole drawing (f)", () => app.view.fit()),
      el(
        "button",
        {
          type: "button",
          class: "icon",
          title: "Light or dark",
          "aria-label": "Light or dark",
          click: () => this.flipTheme(),
        },
        "◐",
      ),
    );
    const stage = (this.main = el("main", { class: "stage" }));
    this.slots = {
      toolbar: extra,
      path: el("div", { class: "path" }),
      left: el("aside", { class: "side left", "aria-label": "Outline" }),
      right: el("aside", { class: "side right", "aria-label": "Details and styles" }),
      bottom: el("footer", { class: "bottom" }),
      over: el("div", { class: "over" }),
    };
    stage.append(this.slots.over, this.empty, this.status, this.problem);
    host.append(
      el("header", { class: "top" }, toolbar, el("div", { class: "path-bar" }, this.slots.path, this.counts)),
      el("div", { class: "middle" }, this.slots.left, stage, this.slots.right),
      this.slots.bottom,
    );
    app.view = new GraphView(
      stage,
      {
        select: (item) => app.select(item),
        toggle: (item) => void app.toggle(item),
        hover: (item) => app.events.emit("hovered", item),
        moved: (camera) => {
          this.minimap?.update();
          app.events.emit("moved", camera);
        },
        hoverPort: (port) => void app.pointAtPort(port),
        wanted: (items) => void app.tellFacts(items),
      },
      new URLSearchParams(location.search).has("canvas"),
    );
    this.minimap = new Minimap(app.view);
    this.slots.over.append(this.minimap.element);
    this.grouping.addEventListener("change", () => void app.setGrouping(this.grouping.value));
    this.listen();
    // A ring around the drawing helps whoever goes by keys and is in the way of whoever points.
    const hand = (kind: string) => (): void => void (document.documentElement.dataset.hand = kind);
    window.addEventListener("keydown", hand("keys"), { capture: true });
    window.addEventListener("pointerdown", hand("pointer"), { capture: true });
    // The system's theme, also when it turns dark in the evening, until somebody chose another.
    this.system.addEventListener("change", () => {
      if (!this.chosen) this.show(this.system.matches);
    });
    this.show(this.system.matches);
  }

  private listen(): void {
    const { app } = this;
    app.events.on("opened", ({ name, info }) => {
      this.problem.hidden = true;
      this.title.textContent = info.header.title || name;
      document.title = `${info.header.title || name} – Glasshouse`;
    });
    app.events.on("shown", ({ spec, result }) => {
      const many = (n: number, what: string): string => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
      this.counts.textContent = `${many(result.nodes, "node")} · ${many(result.edges, "edge")}`;
      this.empty.hidden = result.nodes > 0;
      const names = result.groupings.length > 0 ? result.groupings : ["module"];
      this.grouping.replaceChildren(
        ...names.map((n) => el("option", { value: n, selected: n === spec.grouping }, n[0].toUpperCase() + n.slice(1))),
      );
      document.documentElement.dataset.ready = "1";
    });
    let shownAt = 0;
    app.events.on("progress", (p) => {
      if (!p) {
        this.status.hidden = true;
        shownAt = 0;
        return;
      }
      shownAt ||= performance.now();
      // Short work is not announced; what takes longer says what it does and how far it is.
      if (performance.now() - shownAt < 250) return;
      this.status.hidden = false;
      this.status.replaceChildren(
        p.total > 1 ? `${p.text}: ${count(p.done)} of ${count(p.total)}` : p.text,
        el("button", { type: "button", click: () => app.cancel() }, "Stop"),
      );
    });
    app.events.on("failed", (e) => {
      this.problem.hidden = false;
      this.problem.replaceChildren(
        el("h2", {}, "This file can't be shown"),
        el("p", {}, e.message),
        el("p", { class: "help" }, e instanceof GlassError ? e.help : ""),
      );
    });
    window.addEventListener("keydown", (e) => {
      const target = e.target as HTMLElement;
      if (target.closest("input, textarea, select") || e.altKey) return;
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "z") {
        e.preventDefault();
        void (e.shiftKey ? app.redo() : app.undo());
        return;
      }
      if (e.ctrlKey || e.metaKey) return;
      const keys: Record<string, () => void> = {
        f: () => app.view.fit(),
        e: () => void app.unfoldAll(),
        c: () => void app.foldAll(),
        "+": () => app.view.zoomBy(1.25),
        "=": () => app.view.zoomBy(1.25),
        "-": () => app.view.zoomBy(0.8),
        Enter: () => void (app.selected >= 0 && app.toggle(app.selected)),
        Escape: () => app.select(-1),
      };
      const run = keys[e.key];
      if (!run) return;
      if (e.key === "Enter" && target.closest("button")) return;
      e.preventDefault();
      run();
    });
  }

  setTheme(theme: "light" | "dark"): void {
    this.chosen = true;
    this.show(theme === "dark");
  }

  private show(dark: boolean): void {
    const theme = dark ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
    this.app.view.setTheme(dark ? DARK : LIGHT);
    this.app.events.emit("theme", theme);
  }

  flipTheme(): void {
    this.setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  }
}
