/** The drawer below the graph: kernels as a table, time as an icicle, memory over steps, ranks over time; each line and bar goes to its node. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { button } from "./parts";
import { IcicleChart } from "./icicle_chart";
import { KernelTable } from "./kernel_table";
import { MemoryChart } from "./memory_chart";
import { RankChart } from "./rank_chart";

export interface DrawerPart {
  readonly title: string;
  readonly element: HTMLElement;
  /** Whether the file has anything of it; what says nothing is always there. */
  readonly there?: boolean;
  /** Asked for again whenever the part is in sight and what is shown changed. */
  refresh(): Promise<void>;
  /** The selection changed, perhaps by a click elsewhere. */
  selected(item: number): void;
}

const HEIGHT = 260;

export class Drawer {
  readonly element = el("section", { class: "drawer", "aria-label": "Tables and charts", hidden: true });
  private readonly tabs = el("div", { class: "side-tabs", role: "tablist", "aria-label": "Tables and charts" });
  private readonly parts: readonly DrawerPart[];
  private current = 0;
  private height = HEIGHT;

  constructor(private readonly app: App) {
    const go = (item: number): void => void app.reveal(item);
    this.parts = [new KernelTable(app, go), new IcicleChart(app, go), new MemoryChart(app, go), new RankChart(app, go)];
    const grip = el("div", {
      class: "drawer-grip",
      role: "separator",
      "aria-orientation": "horizontal",
      "aria-label": "Height",
    });
    this.element.append(
      grip,
      el(
        "div",
        { class: "side-head" },
        this.tabs,
        button("×", "Close (k)", () => this.toggle(), "icon small"),
      ),
      ...this.parts.map((p) => p.element),
    );
    this.drag(grip);
    app.events.on("shown", () => void this.refresh());
    app.events.on("selected", (item) => this.parts[this.current].selected(item));
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  toggle(at = this.current): void {
    const open = !(this.isOpen && at === this.current);
    this.element.hidden = !open;
    this.current = at;
    this.draw();
    requestAnimationFrame(() => this.app.view.fit(false));
  }

  private draw(): void {
    this.element.style.height = `${this.height}px`;
    this.tabs.replaceChildren(
      ...this.parts.map((p, i) => {
        const panel = `drawer-${i}`;
        p.element.id = panel;
        p.element.setAttribute("role", "tabpanel");
        p.element.setAttribute("aria-label", p.title);
        return el(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-selected": i === this.current ? "true" : "false",
            "aria-controls": panel,
            hidden: p.there === false,
            click: () => this.show(i),
          },
          p.title,
        );
      }),
    );
    this.parts.forEach((p, i) => (p.element.hidden = i !== this.current));
    void this.refresh();
  }

  private show(i: number): void {
    this.current = i;
    this.draw();
  }

  private async refresh(): Promise<void> {
    if (!this.isOpen || !this.app.spec) return;
    const part = this.parts[this.current];
    await part.refresh();
    part.selected(this.app.selected);
  }

  private drag(grip: HTMLElement): void {
    grip.addEventListener("pointerdown", (e) => {
      e.preventDefault();
      grip.setPointerCapture(e.pointerId);
      const [from, start] = [e.clientY, this.height];
      const move = (m: PointerEvent): void => {
        this.height = Math.max(120, Math.min(window.innerHeight * 0.6, start + from - m.clientY));
        this.element.style.height = `${this.height}px`;
      };
      grip.addEventListener("pointermove", move);
      grip.addEventListener("pointerup", () => grip.removeEventListener("pointermove", move), { once: true });
    });
  }
}
