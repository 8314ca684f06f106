/** The table of kernels: sorted by any column, filtered as one types, in step with the selection both ways. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { bytes, count, percent, seconds, short } from "../base/format";
import type { KernelLine, KernelLines } from "../query/kernel_table";
import type { DrawerPart } from "./drawer";
import { scrollWithin } from "./embedded";
import { cutLeft } from "./parts";

interface Column {
  readonly title: string;
  readonly sort: (l: KernelLine) => number | string;
  readonly text: (l: KernelLine) => string;
}

const known = (v: number, text: (v: number) => string): string => (Number.isFinite(v) ? text(v) : "");

export class KernelTable implements DrawerPart {
  readonly title = "Kernels";
  readonly element = el("div", { class: "drawer-part" });
  private readonly filter = el("input", {
    type: "search",
    class: "filter",
    placeholder: "Filter by name, path or op",
    "aria-label": "Filter kernels",
  });
  private readonly told = el("span", { class: "soft", role: "status" });
  private readonly head = el("tr", {});
  private readonly body = el("tbody", {});
  private readonly room = el("div", { class: "table-room", tabindex: 0, role: "group", "aria-label": "Kernels" });
  private data: KernelLines = { lines: [], total: 0, note: "" };
  private by = 2;
  private down = true;
  private rows = new Map<number, HTMLElement>();

  private readonly columns: readonly Column[] = [
    { title: "Kernel", sort: (l) => l.title, text: (l) => cutLeft(l.title, 60) },
    { title: "Module", sort: (l) => l.path, text: (l) => cutLeft(l.path, 44) },
    { title: "Time", sort: (l) => l.seconds, text: (l) => known(l.seconds, seconds) },
    {
      title: "Share",
      sort: (l) => l.seconds,
      text: (l) => (this.data.total > 0 ? known(l.seconds / this.data.total, percent) : ""),
    },
    { title: "Of limit", sort: (l) => l.limit, text: (l) => known(l.limit, percent) },
    { title: "Error", sort: (l) => l.error, text: (l) => known(l.error, (v) => v.toExponential(1)) },
    { title: "FLOPs", sort: (l) => l.flops, text: (l) => known(l.flops, short) },
    { title: "Bytes", sort: (l) => l.bytes, text: (l) => known(l.bytes, bytes) },
  ];

  constructor(
    private readonly app: App,
    private readonly go: (item: number) => void,
  ) {
    this.filter.addEventListener("input", () => this.draw());
    this.room.append(el("table", { class: "kernels" }, el("thead", {}, this.head), this.body));
    this.element.append(el("div", { class: "drawer-bar" }, this.filter, this.told), this.room);
  }

  async refresh(): Promise<void> {
    this.data = await this.app.engine.call("kernelLines", null);
    this.draw();
  }

  selected(item: number): void {
    const chosen = this.rows.get(item);
    for (const row of this.rows.values()) row.setAttribute("aria-current", row === chosen ? "true" : "false");
    scrollWithin(this.room, chosen);
  }

  private draw(): void {
    this.head.replaceChildren(
      ...this.columns.map((c, i) => {
        const sorted = i === this.by ? (this.down ? "descending" : "ascending") : "none";
        return el(
          "th",
          { scope: "col", "aria-sort": sorted },
          el(
            "button",
            { type: "button", click: () => this.sort(i) },
            c.title + (i === this.by ? (this.down ? " ↓" : " ↑") : ""),
          ),
        );
      }),
    );
    const wanted = this.filter.value.trim().toLowerCase();
    const lines = this.data.lines.filter(
      (l) => !wanted || `${l.title} ${l.path} ${l.op}`.toLowerCase().includes(wanted),
    );
    const { sort } = this.columns[this.by];
    const sign = this.down ? -1 : 1;
    lines.sort((a, b) => {
      const [x, y] = [sort(a), sort(b)];
      if (typeof x === "string" || typeof y === "string")
        return sign * String(x).localeCompare(String(y), undefined, { numeric: true });
      // What is not known stands last, whichever way.
      return Number.isNaN(x) || Number.isNaN(y) ? Number(Number.isNaN(x)) - Number(Number.isNaN(y)) : sign * (x - y);
    });
    this.rows = new Map();
    const most = 500;
    this.body.replaceChildren(...lines.slice(0, most).map((l) => this.row(l)));
    const sum = lines.reduce((t, l) => t + (l.seconds || 0), 0);
    const shown =
      lines.length > most
        ? `the first ${most} of ${count(lines.length)}`
        : `${count(lines.length)} of ${count(this.data.lines.length)}`;
    this.told.textContent = [shown, sum > 0 ? seconds(sum) : "", this.data.note ? `time ${this.data.note}` : ""]
      .filter(Boolean)
      .join(" · ");
    this.selected(this.app.selected);
  }

  private row(l: KernelLine): HTMLElement {
    const cells = this.columns.map((c, i) =>
      i === 0
        ? el(
            "th",
            { scope: "row" },
            el(
              "button",
              { type: "button", class: "link", title: l.title, click: () => this.go(l.home >= 0 ? l.home : l.item) },
              c.text(l),
            ),
          )
        : el("td", i === 1 ? { title: l.path } : { class: "figure" }, c.text(l)),
    );
    const out = el("tr", { "aria-current": "false" }, ...cells);
    out.addEventListener("click", (e) => {
      if (!(e.target as HTMLElement).closest("button")) this.go(l.home >= 0 ? l.home : l.item);
    });
    this.rows.set(l.item, out);
    if (l.home >= 0) this.rows.set(l.home, out);
    return out;
  }

  private sort(column: number): void {
    this.down = column === this.by ? !this.down : column > 1;
    this.by = column;
    this.draw();
  }
}
