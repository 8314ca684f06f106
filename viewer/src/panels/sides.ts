/** How the side panels take room: folded to a tab where the graph needs it, as wide as one drags them. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { button } from "./parts";

export interface SideContent {
  readonly title: string;
  readonly key: string;
  readonly element: HTMLElement;
  setVisible(visible: boolean): void;
}

const LEAST = 180;

export class Side {
  readonly tab: HTMLButtonElement;
  private readonly tabs = el("div", { class: "side-tabs", role: "tablist" });
  private current = 0;
  private isOpen = false;

  constructor(
    private readonly app: App,
    private readonly host: HTMLElement,
    private readonly which: "left" | "right",
    private readonly contents: readonly SideContent[],
    private width: number,
  ) {
    const grip = el("div", {
      class: `grip grip-${which}`,
      role: "separator",
      "aria-orientation": "vertical",
      "aria-label": "Width",
    });
    this.tab = button(
      contents[0].title,
      `${contents[0].title} (${contents[0].key})`,
      () => this.setOpen(true),
      `side-tab side-tab-${which}`,
    );
    const fold = button(
      which === "left" ? "‹" : "›",
      `Fold away (${contents[0].key})`,
      () => this.setOpen(false),
      "icon small",
    );
    const head = el("div", { class: "side-head" }, this.tabs, fold);
    host.append(head, ...contents.map((c) => c.element), grip);
    this.drag(grip);
    this.draw();
  }

  get open(): boolean {
    return this.isOpen;
  }

  setOpen(open: boolean, at = this.current): void {
    const { view } = this.app;
    const extent = view.scene.extent();
    const { camera, size } = view;
    const allSeen =
      camera.x >= 0 &&
      camera.y >= 0 &&
      camera.x + extent.w * camera.scale <= size.width &&
      camera.y + extent.h * camera.scale <= size.height;
    const middle = { x: camera.worldX(size.width / 2), y: camera.worldY(size.height / 2) };
    this.isOpen = open;
    this.current = at;
    this.draw();
    if (!view.scene.root) return;
    // What one looks at stays in the middle; what was seen whole stays whole.
    requestAnimationFrame(() => {
      if (allSeen) view.fit(false);
      else
        view.go(
          camera.pan(
            view.size.width / 2 - (middle.x * camera.scale + camera.x),
            view.size.height / 2 - (middle.y * camera.scale + camera.y),
          ),
          false,
        );
    });
  }

  toggle(at = 0): void {
    this.setOpen(!(this.isOpen && this.current === at), at);
  }

  private draw(): void {
    this.host.hidden = !this.isOpen;
    this.tab.hidden = this.isOpen;
    this.host.style.width = `${this.width}px`;
    this.tabs.replaceChildren(
      ...this.contents.map((c, i) =>
        el(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-selected": i === this.current ? "true" : "false",
            click: () => this.setOpen(true, i),
          },
          c.title,
        ),
      ),
    );
    this.contents.forEach((c, i) => {
      const visible = this.isOpen && i === this.current;
      c.element.hidden = !visible;
      c.setVisible(visible);
    });
  }

  private drag(grip: HTMLElement): void {
    grip.addEventListener("pointerdown", (e) => {
      e.preventDefault();
      grip.setPointerCapture(e.pointerId);
      const from = e.clientX;
      const start = this.width;
      const move = (m: PointerEvent): void => {
        const by = (m.clientX - from) * (this.which === "left" ? 1 : -1);
        this.width = Math.max(LEAST, Math.min(window.innerWidth * 0.6, start + by));
        this.host.style.width = `${this.width}px`;
      };
      grip.addEventListener("pointermove", move);
      grip.addEventListener("pointerup", () => grip.removeEventListener("pointermove", move), { once: true });
    });
  }
}
