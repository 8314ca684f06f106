/** What "?" shows: every key and gesture, in one list. */

import { el } from "../base/dom";
import { button } from "./parts";

export const KEYS: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    "Move",
    [
      ["Wheel", "scroll"],
      ["Ctrl + wheel, pinch", "zoom to the cursor"],
      ["Drag", "pan"],
      ["f", "fit the whole drawing"],
      ["+ −", "zoom"],
    ],
  ],
  [
    "Walk",
    [
      ["← ↑ → ↓", "follow edges, go to siblings"],
      ["Enter, double click", "unfold or fold"],
      ["Esc", "step back: palette, light, selection"],
      ["Backspace", "to the group around"],
    ],
  ],
  [
    "Unfold",
    [
      ["e", "unfold all"],
      ["c", "fold all"],
      ["g", "flatten"],
      ["h", "first view"],
      ["t", "top-down or left-right"],
    ],
  ],
  [
    "Find",
    [
      ["/", "search"],
      ["n  N", "next and previous hit"],
      ["u  d", "all that is upstream or downstream"],
    ],
  ],
  [
    "Passes",
    [
      ["[  ]", "previous and next pass"],
      ["\\", "before and after the pass"],
    ],
  ],
  [
    "Page",
    [
      ["o  i", "outline, details"],
      ["k", "kernels, time by module, memory"],
      ["s", "two panes"],
      ["Ctrl + z, Ctrl + Shift + z", "undo and redo view changes"],
      ["?", "this list"],
    ],
  ],
];

export class Help {
  readonly element: HTMLDialogElement;

  constructor() {
    this.element = el(
      "dialog",
      { class: "help-dialog", "aria-label": "Keys" },
      el(
        "div",
        { class: "help-head" },
        el("h2", {}, "Keys"),
        button("×", "Close (Esc)", () => this.element.close(), "icon"),
      ),
      el(
        "div",
        { class: "help-columns" },
        ...KEYS.map(([title, rows]) =>
          el(
            "section",
            {},
            el("h3", {}, title),
            el(
              "dl",
              {},
              ...rows.flatMap(([k, what]) => [
                el(
                  "dt",
                  {},
                  ...k.split("  ").flatMap((x, i) => (i > 0 ? [" ", el("kbd", {}, x)] : [el("kbd", {}, x)])),
                ),
                el("dd", {}, what),
              ]),
            ),
          ),
        ),
      ),
    );
    this.element.addEventListener("click", (e) => {
      if (e.target === this.element) this.element.close();
    });
  }

  toggle(): void {
    if (this.element.open) this.element.close();
    else this.element.showModal();
  }
}
