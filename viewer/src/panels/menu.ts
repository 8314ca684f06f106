/** How seldom used commands are reached: one menu, by mouse and by keyboard. */

import { el } from "../base/dom";

export interface Command {
  readonly text: string;
  readonly key?: string;
  readonly run: () => void;
}

export class Menu {
  readonly button: HTMLButtonElement;
  private readonly list = el("div", { class: "menu", role: "menu", hidden: true });
  readonly element: HTMLElement;

  constructor(
    label: string,
    title: string,
    private readonly commands: () => readonly (Command | null)[],
  ) {
    this.button = el(
      "button",
      { type: "button", title, "aria-haspopup": "menu", "aria-expanded": "false", click: () => this.toggle() },
      label,
    );
    this.element = el("div", { class: "menu-place" }, this.button, this.list);
    window.addEventListener("pointerdown", (e) => {
      if (!this.element.contains(e.target as Node)) this.close();
    });
    this.element.addEventListener("keydown", (e) => {
      if (this.list.hidden) return;
      const items = [...this.list.querySelectorAll("button")];
      const at = items.indexOf(document.activeElement as HTMLButtonElement);
      const to = e.key === "ArrowDown" ? at + 1 : e.key === "ArrowUp" ? at - 1 : NaN;
      if (e.key === "Escape") {
        this.close();
        this.button.focus();
      } else if (!Number.isNaN(to)) items[(to + items.length) % items.length]?.focus();
      else return;
      e.preventDefault();
      e.stopPropagation();
    });
  }

  private toggle(): void {
    if (!this.list.hidden) {
      this.close();
      return;
    }
    this.list.replaceChildren(
      ...this.commands().map((c) =>
        c
          ? el(
              "button",
              { type: "button", role: "menuitem", click: () => this.pick(c) },
              el("span", {}, c.text),
              el("kbd", {}, c.key ?? ""),
            )
          : el("hr"),
      ),
    );
    this.list.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.list.querySelector("button")?.focus();
  }

  private pick(c: Command): void {
    this.close();
    c.run();
  }

  close(): void {
    this.list.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }
}
