/** How a source line is shown: in its surroundings, with numbers, the line itself marked. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { scrollWithin } from "./embedded";
import { button } from "./parts";

const AROUND = 5;

/** File and line, then the text around it as soon as the worker has found it in the recording. */
export function sourceView(app: App, file: string, line: number): HTMLElement {
  const short = file.split(/[\\/]/).slice(-2).join("/");
  const box = el("div", { class: "source" });
  const out = el(
    "div",
    {},
    el("div", { class: "source-name", title: file }, line > 0 ? `${short}:${line}` : short),
    box,
  );
  void app.engine.call("source", { path: file }).then((text) => {
    if (text === null) {
      box.append(el("p", { class: "soft" }, "The recording does not hold the text of this file."));
      return;
    }
    box.replaceChildren(
      codeLines(text, line, AROUND),
      button("Whole file", "", () => box.replaceChildren(codeLines(text, line, Infinity)), "more"),
    );
  });
  return out;
}

export function codeLines(text: string, line: number, around: number): HTMLElement {
  const lines = text.split("\n");
  const from = Math.max(1, line > 0 ? line - around : 1);
  const to = Math.min(lines.length, line > 0 ? line + around : lines.length);
  // Indentation that all lines share says nothing in a narrow panel.
  const part = lines.slice(from - 1, to);
  const indent =
    around === Infinity ? 0 : Math.min(...part.filter((l) => l.trim()).map((l) => l.length - l.trimStart().length), 40);
  const pre = el("pre", { class: "code", tabindex: 0 });
  let marked: HTMLElement | null = null;
  part.forEach((t, i) => {
    const n = from + i;
    const row = el(
      "span",
      { class: n === line ? "code-line here" : "code-line" },
      el("span", { class: "code-number", "aria-hidden": "true" }, String(n)),
      `${t.slice(indent)}\n`,
    );
    if (n === line) marked = row;
    pre.append(row);
  });
  if (around === Infinity && marked) requestAnimationFrame(() => scrollWithin(pre, marked));
  return pre;
}
