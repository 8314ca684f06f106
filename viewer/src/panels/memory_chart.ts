/** The memory plan over steps: a box for each tensor in the arena, as long as it lives, as high as it is large. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { bytes, count } from "../base/format";
import type { MemoryBox, MemoryPlan } from "../query/memory";
import type { DrawerPart } from "./drawer";

const SVG = "http://www.w3.org/2000/svg";

export class MemoryChart implements DrawerPart {
  readonly title = "Memory";
  readonly element = el("div", { class: "drawer-part" });
  private readonly chart = document.createElementNS(SVG, "svg");
  private readonly told = el("span", { class: "soft", role: "status" });
  private boxes = new Map<number, SVGRectElement>();

  constructor(
    private readonly app: App,
    private readonly go: (item: number) => void,
  ) {
    this.chart.setAttribute("class", "memory");
    this.chart.setAttribute("preserveAspectRatio", "none");
    this.chart.setAttribute("role", "group");
    this.chart.setAttribute("aria-label", "Memory over steps");
    this.element.append(
      el("div", { class: "drawer-bar" }, this.told),
      el(
        "div",
        { class: "chart-room memory-room" },
        el("span", { class: "axis-top" }),
        this.chart,
        el("span", { class: "axis-left soft" }, "step 0"),
        el("span", { class: "axis-right soft" }),
      ),
    );
  }

  async refresh(): Promise<void> {
    const plan: MemoryPlan = await this.app.engine.call("memoryPlan", null);
    this.boxes = new Map();
    this.chart.replaceChildren();
    const axis = (which: string, text: string): void =>
      void ((this.element.querySelector(`.axis-${which}`) as HTMLElement).textContent = text);
    axis("right", plan.steps > 0 ? `step ${count(plan.steps - 1)}` : "");
    axis("left", plan.steps > 0 ? "step 0" : "");
    this.told.textContent =
      plan.boxes.length > 0
        ? `${count(plan.boxes.length)} tensors in an arena of ${bytes(plan.arena)} over ${count(plan.steps)} steps; side by side they would take ${bytes(plan.boxes.reduce((n, b) => n + b.bytes, 0))}`
        : "The file has no memory plan for this stage.";
    if (plan.boxes.length === 0) return;
    this.chart.setAttribute("viewBox", `0 0 ${plan.steps} ${plan.arena}`);
    const most = plan.boxes.reduce((m, b) => Math.max(m, b.bytes), 1);
    for (const b of plan.boxes) this.chart.append(this.box(b, plan, b.bytes / most));
  }

  selected(item: number): void {
    const chosen = this.boxes.get(item);
    for (const box of this.boxes.values()) box.classList.toggle("chosen", box === chosen);
  }

  private box(b: MemoryBox, plan: MemoryPlan, shade: number): SVGRectElement {
    const out = document.createElementNS(SVG, "rect");
    // The arena's start is at the bottom.
    const place: Record<string, string | number> = {
      x: b.from,
      y: plan.arena - b.offset - b.bytes,
      width: b.to - b.from + 1,
      height: b.bytes,
      tabindex: 0,
      role: "button",
      "fill-opacity": 0.3 + 0.6 * shade,
      "aria-label": `${b.title}: ${bytes(b.bytes)} at ${bytes(b.offset)}, steps ${b.from} to ${b.to}`,
    };
    for (const [k, v] of Object.entries(place)) out.setAttribute(k, String(v));
    const title = document.createElementNS(SVG, "title");
    title.textContent = String(place["aria-label"]);
    out.append(title);
    const to = b.home >= 0 ? b.home : b.item;
    out.addEventListener("click", () => this.go(to));
    out.addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === " ") this.go(to);
    });
    this.boxes.set(b.item, out);
    if (b.home >= 0) this.boxes.set(b.home, out);
    return out;
  }
}
