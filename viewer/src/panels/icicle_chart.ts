/** Time by module as an icicle: a bar as wide as its share, split below by what is inside. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { percent } from "../base/format";
import type { IcicleBar } from "../query/icicle";
import { figure } from "./coloring";
import type { DrawerPart } from "./drawer";
import { scrollWithin } from "./embedded";

const ROW = 24;

export class IcicleChart implements DrawerPart {
  readonly title = "Time by module";
  readonly element = el("div", { class: "drawer-part" });
  private readonly chart = el("div", { class: "icicle" });
  private readonly choice = el(
    "select",
    { "aria-label": "Measure of the icicle" },
    ...(
      [
        ["time", "Time"],
        ["flops", "FLOPs"],
        ["bytes", "Bytes written"],
        ["params", "Parameters"],
      ] as const
    ).map(([v, t]) => el("option", { value: v }, t)),
  );
  private readonly told = el("span", { class: "soft", role: "status" });
  private bars = new Map<number, HTMLElement>();

  constructor(
    private readonly app: App,
    private readonly go: (item: number) => void,
  ) {
    this.choice.addEventListener("change", () => void this.refresh());
    this.element.append(
      el("div", { class: "drawer-bar" }, this.choice, this.told),
      el("div", { class: "chart-room", tabindex: 0, role: "group", "aria-label": "Time by module" }, this.chart),
    );
  }

  async refresh(): Promise<void> {
    let data = await this.app.engine.call("icicle", { name: this.choice.value });
    if (!data && this.choice.value === "time") {
      this.choice.value = "flops";
      data = await this.app.engine.call("icicle", { name: "flops" });
    }
    this.bars = new Map();
    const bars = data?.bars ?? [];
    this.chart.style.height = `${(bars.reduce((d, b) => Math.max(d, b.depth), 0) + 1) * ROW}px`;
    this.chart.replaceChildren(...bars.map((b) => this.bar(b, figure(data?.unit ?? "number", b.value))));
    this.told.textContent = data ? data.note || `${figure(data.unit, data.total)} in all` : "nothing was measured";
  }

  selected(item: number): void {
    for (const [i, bar] of this.bars) bar.classList.toggle("chosen", i === item);
    if (this.chart.parentElement) scrollWithin(this.chart.parentElement, this.bars.get(item));
  }

  private bar(b: IcicleBar, told: string): HTMLElement {
    const text = `${b.title}: ${told}, ${percent(b.share)}`;
    const out = el(
      "button",
      {
        type: "button",
        class: `icicle-bar shade-${b.depth % 4}`,
        title: text,
        "aria-label": text,
        click: () => this.go(b.item),
      },
      b.share > 0.03 ? `${b.title}  ${told}` : "",
    );
    out.style.left = `${b.at * 100}%`;
    out.style.width = `${b.share * 100}%`;
    out.style.top = `${b.depth * ROW}px`;
    this.bars.set(b.item, out);
    return out;
  }
}
