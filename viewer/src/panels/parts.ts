/** How the small pieces of panels look: sections, rows of facts, links, chips, bars. */

import { el } from "../base/dom";

export function button(text: string, title: string, run: () => void, cls = ""): HTMLButtonElement {
  // A sign alone is no name to whoever hears it.
  const name: Record<string, string> = /[\p{L}\p{N}]/u.test(text)
    ? {}
    : { "aria-label": title.replace(/ \([^)]*\)$/, "") };
  return el("button", { type: "button", title, class: cls, ...name, click: () => run() }, text);
}

/** What a panel is about; a long name is cut after some lines, pointing at it tells the rest. */
export function heading(text: string): HTMLHeadingElement {
  return el("h2", { title: text }, text);
}

/** A link inside a panel: goes to an item, never to the network. */
export function link(text: string, run: () => void, title = ""): HTMLButtonElement {
  return el("button", { type: "button", class: "link", title: title || text, click: () => run() }, text || "–");
}

const closed = new Set<string>();

/** A part of a panel that folds away and stays so for the next item. */
export function section(title: string, figure: string, ...children: (Node | string)[]): HTMLElement {
  const body = el("div", { class: "section-body" }, ...children);
  const out = el(
    "details",
    { class: "section" },
    el("summary", {}, el("span", {}, title), el("span", { class: "figure" }, figure)),
    body,
  );
  out.open = !closed.has(title);
  out.addEventListener("toggle", () => {
    if (out.open) closed.delete(title);
    else closed.add(title);
  });
  return out;
}

/** Sections that start closed, by title. */
export function startClosed(...titles: string[]): void {
  for (const t of titles) closed.add(t);
}

/** Long names are cut in the middle: numbered ones differ at their ends. */
export function middle(text: string, most: number): string {
  return text.length <= most
    ? text
    : `${text.slice(0, Math.ceil(most * 0.4))}…${text.slice(text.length - Math.floor(most * 0.6) + 1)}`;
}

/** Paths are cut at their beginning: what tells them apart stands at their end. */
export function cutLeft(text: string, most: number): string {
  return text.length <= most ? text : `…${text.slice(text.length - most + 1)}`;
}

type Value = Node | string;

/** Name and value, line by line; empty values are left out. */
export function facts(rows: readonly (readonly [string, Value])[]): HTMLElement {
  const out = el("dl", { class: "facts" });
  for (const [name, value] of rows) {
    if (value === "") continue;
    out.append(el("dt", {}, name), el("dd", {}, value));
  }
  return out;
}

/** Attributes of a foreign file may be pages long: shown whole, but in a box that scrolls. */
export function attributes(rows: readonly (readonly [string, string])[]): HTMLElement {
  const out = el("dl", { class: "facts attrs" });
  for (const [name, value] of rows) {
    const long = value.length > 160 || value.includes("\n");
    out.append(
      el("dt", { title: name }, name),
      el("dd", { class: long ? "long" : "" }, long ? el("pre", { tabindex: 0 }, value) : value),
    );
  }
  return out;
}

export function chip(text: string, family = ""): HTMLElement {
  return el("span", { class: family ? `chip family-${family}` : "chip" }, text);
}

/** A line with a bar behind its figure: op counts, slowest nodes. */
export function barRow(label: Node, figure: string, share: number): HTMLElement {
  const bar = el("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${Math.max(1, Math.min(100, share * 100))}%`;
  return el(
    "div",
    { class: "bar-row" },
    el("span", { class: "bar-label" }, label),
    el("span", { class: "bar-room", "aria-hidden": "true" }, bar),
    el("span", { class: "figure" }, figure),
  );
}

/** The same with the label in a line of its own, for names that say something only when whole. */
export function tallRow(label: Node, figure: string, share: number): HTMLElement {
  const out = barRow(label, figure, share);
  out.classList.add("tall");
  return out;
}

/** At most `most` children, the rest behind a button. */
export function limited(nodes: readonly Node[], most: number, what: string): HTMLElement {
  const out = el("div", {}, ...nodes.slice(0, most));
  const rest = nodes.slice(most);
  if (rest.length > 0) {
    const more = button(
      `${rest.length} more ${what}`,
      "",
      () => {
        more.replaceWith(...rest.splice(0, 2000));
      },
      "more",
    );
    out.append(more);
  }
  return out;
}
