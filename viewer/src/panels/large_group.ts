/** What stands for a group that is too large to be read when unfolded: how much it holds, as a list. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { count, short } from "../base/format";
import type { OutlineRow } from "../query/outline";
import { button } from "./parts";
import { VirtualList } from "./virtual_list";

const ROW = 26;

export class LargeGroup {
  readonly element: HTMLElement;
  private readonly title = el("h2", {});
  private readonly told = el("p", { class: "soft" });
  private readonly list: VirtualList<OutlineRow>;
  private item = -1;
  private state: 1 | 2 = 1;
  private at = -1;

  constructor(private readonly app: App) {
    this.list = new VirtualList<OutlineRow>(
      { load: (from, n) => this.load(from, n), render: (row, i) => this.row(row, i) },
      ROW,
      { role: "listbox", "aria-label": "Members" },
    );
    this.element = el(
      "section",
      { class: "large-group", "aria-label": "Large group", hidden: true },
      el(
        "div",
        { class: "large-head" },
        this.title,
        button("×", "Close (Esc)", () => this.close(), "icon small"),
      ),
      this.told,
      this.list.element,
      el(
        "p",
        { class: "actions" },
        button("Unfold anyway", "Draw all of them; this may take a while", () => this.unfold()),
      ),
    );
    this.list.element.addEventListener("keydown", (e) => void this.walk(e));
    app.events.on("large", (e) => void this.show(e.item, e.state, e.total, e.wanted));
    app.events.on("shown", () => this.close());
    app.events.on("selected", () => void this.list.refresh(true));
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  close(): void {
    this.element.hidden = true;
  }

  private async show(item: number, state: 1 | 2, total: number, wanted: number): Promise<void> {
    this.item = item;
    this.state = state;
    const d = await this.app.engine.call("group", { item });
    this.title.textContent = d.title;
    this.told.textContent = `${count(total)} boxes are too many to read side by side. Here they are as a list.`;
    this.element.hidden = false;
    this.at = -1;
    const listed = this.list.setTotal(total);
    this.list.element.focus(); // before the rows are there: keys that come now are for the list
    await listed;
    if (wanted >= 0) {
      this.app.select(wanted);
      this.at = await this.indexOf(wanted, total);
      this.list.scrollTo(this.at);
    }
  }

  private async indexOf(item: number, total: number): Promise<number> {
    const { rows } = await this.app.engine.call("members", {
      item: this.item,
      each: this.state === 2,
      from: 0,
      count: total,
    });
    return Math.max(
      0,
      rows.findIndex((r) => r.item === item),
    );
  }

  private async load(from: number, n: number): Promise<readonly OutlineRow[]> {
    return (await this.app.engine.call("members", { item: this.item, each: this.state === 2, from, count: n })).rows;
  }

  private row(row: OutlineRow, index: number): HTMLElement {
    const chosen = row.item === this.app.selected;
    return el(
      "div",
      {
        class: chosen ? "row chosen" : "row",
        role: "option",
        "aria-selected": chosen ? "true" : "false",
        title: row.sub ? `${row.title} – ${row.sub}` : row.title,
        click: () => this.choose(row.item, index),
      },
      el("span", { class: `dot family-${row.family}`, "aria-hidden": "true" }),
      el("span", { class: "row-title" }, row.title),
      row.name && row.name !== row.title ? el("span", { class: "row-name" }, row.name) : "",
      el("span", { class: "row-sub" }, row.sub),
      row.key === 0 ? "" : el("span", { class: "figure" }, short(row.ops)),
    );
  }

  private choose(item: number, index: number): void {
    this.at = index;
    this.app.select(item);
  }

  private async walk(e: KeyboardEvent): Promise<void> {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 }[e.key] ?? 0;
    if (by === 0) return;
    e.preventDefault();
    const to = Math.min(this.list.length - 1, Math.max(0, this.at + by));
    this.at = to; // at once: the next key may come before the row
    const [row] = await this.load(to, 1);
    if (this.at !== to) return;
    this.choose(row.item, to);
    this.list.scrollTo(to);
  }

  private unfold(): void {
    this.close();
    void this.app.setFold(this.item, this.state, true);
  }
}
