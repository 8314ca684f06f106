/** What the outline does: the module tree as far as it is opened, following the selection. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { short } from "../base/format";
import type { OutlineRow } from "../query/outline";
import { VirtualList } from "./virtual_list";

const ROW = 24;

export class OutlinePanel {
  readonly element: HTMLElement;
  private readonly list: VirtualList<OutlineRow>;
  private readonly open = new Set<number>();
  private focus = -1; // item
  private focusIndex = 0;
  private ops = 1;
  private rows: readonly OutlineRow[] = [];
  private from = 0;
  private visible = false;
  private stale = true;

  constructor(private readonly app: App) {
    this.list = new VirtualList<OutlineRow>(
      { load: (from, count) => this.load(from, count), render: (row, i) => this.row(row, i) },
      ROW,
      {
        role: "tree",
        "aria-label": "Outline",
      },
    );
    this.element = el("div", { class: "panel outline" }, this.list.element);
    this.list.element.addEventListener("keydown", (e) => this.key(e));
    app.events.on("opened", () => this.open.clear());
    app.events.on("shown", ({ result }) => {
      if (!result.update.reset) return;
      this.ops = Math.max(1, result.nodes);
      this.stale = true;
      if (this.visible) void this.reload();
    });
    app.events.on("selected", (item) => void this.follow(item));
  }

  setVisible(visible: boolean): void {
    this.visible = visible;
    if (!visible) return;
    if (this.stale) void this.reload().then(() => this.follow(this.app.selected));
    else void this.list.refresh(true);
  }

  private async reload(): Promise<void> {
    if (!this.app.spec) return;
    this.stale = false;
    let window = await this.app.engine.call("tree", { open: [...this.open], from: 0, count: 4 });
    // A model in one box says nothing: what it holds is listed at once.
    if (this.open.size === 0 && window.total <= 3) {
      for (const r of window.rows) if (r.key !== 0) this.open.add(r.key);
      window = await this.app.engine.call("tree", { open: [...this.open], from: 0, count: 0 });
    }
    await this.list.setTotal(window.total);
  }

  private async load(from: number, count: number): Promise<readonly OutlineRow[]> {
    const window = await this.app.engine.call("tree", { open: [...this.open], from, count });
    this.rows = window.rows;
    this.from = window.from;
    return window.rows;
  }

  /** Shows where the selection is, opening what hides it. */
  private async follow(item: number): Promise<void> {
    if (item < 0 || !this.visible) {
      this.focus = item;
      if (this.visible) await this.list.refresh(true);
      return;
    }
    const place = await this.app.engine.call("treePlace", { open: [...this.open], item });
    for (const k of place.open) this.open.add(k);
    this.focus = item;
    this.focusIndex = Math.max(0, place.index);
    const window = await this.app.engine.call("tree", { open: [...this.open], from: 0, count: 0 });
    await this.list.setTotal(window.total);
    this.list.scrollTo(this.focusIndex);
  }

  private row(row: OutlineRow, index: number): HTMLElement {
    const twist = el("span", { class: "twist", "aria-hidden": "true" }, row.key === 0 ? "" : row.open ? "▾" : "▸");
    twist.addEventListener("click", (e) => {
      e.stopPropagation();
      void this.toggle(row);
    });
    const share = row.key === 0 ? 0 : row.ops / this.ops;
    const bar = el("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.round(share * 100)}%`;
    const out = el(
      "div",
      {
        class: row.item === this.focus ? "row chosen" : "row",
        role: "treeitem",
        id: `outline-${row.item}`,
        "aria-level": row.depth + 1,
        "aria-selected": row.item === this.focus ? "true" : "false",
        title: row.sub ? `${row.title} – ${row.sub}` : row.title,
      },
      twist,
      el("span", { class: `dot family-${row.family}`, "aria-hidden": "true" }),
      el("span", { class: "row-title" }, row.title),
      el("span", { class: "row-sub" }, row.key === 0 ? row.sub : ""),
      ...(row.key === 0
        ? []
        : [
            el("span", { class: "spring" }),
            el("span", { class: "bar-room share", "aria-hidden": "true" }, bar),
            el("span", { class: "figure" }, short(row.ops)),
          ]),
    );
    if (row.key !== 0) out.setAttribute("aria-expanded", String(row.open));
    out.style.paddingLeft = `${6 + Math.min(row.depth, 12) * 12}px`;
    out.addEventListener("click", () => this.choose(row, index));
    out.addEventListener("dblclick", () => void this.toggle(row));
    return out;
  }

  private choose(row: OutlineRow, index: number): void {
    this.focus = row.item;
    this.focusIndex = index;
    this.list.element.setAttribute("aria-activedescendant", `outline-${row.item}`);
    void this.app.reveal(row.item);
  }

  private async toggle(row: OutlineRow): Promise<void> {
    if (row.key === 0) return;
    if (this.open.has(row.key)) this.open.delete(row.key);
    else this.open.add(row.key);
    const window = await this.app.engine.call("tree", { open: [...this.open], from: 0, count: 0 });
    await this.list.setTotal(window.total);
  }

  private key(e: KeyboardEvent): void {
    const at = this.rows[this.focusIndex - this.from] as OutlineRow | undefined;
    const move = (by: number): void => {
      const index = Math.min(this.list.length - 1, Math.max(0, this.focusIndex + by));
      this.list.scrollTo(index);
      void this.list.refresh(false).then(() => {
        const row = this.rows[index - this.from];
        if (row) this.choose(row, index);
      });
    };
    const keys: Record<string, () => void> = {
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      PageDown: () => move(20),
      PageUp: () => move(-20),
      ArrowRight: () => void (at && at.key !== 0 && !at.open ? this.toggle(at) : move(1)),
      ArrowLeft: () => void (at?.open && this.toggle(at)),
      Enter: () => void (at && (at.key !== 0 ? this.app.toggle(at.item) : this.app.reveal(at.item))),
    };
    const run = keys[e.key];
    if (!run || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    run();
  }
}
