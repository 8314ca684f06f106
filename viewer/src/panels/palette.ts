/** How searching feels: a palette over the graph, counts as one types, hits lit, Enter goes there. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { count } from "../base/format";
import { figure } from "./coloring";
import { HELP } from "../query/language";
import type { Hit, SearchResult } from "../query/search";
import type { Overlays } from "./overlays";
import { button } from "./parts";
import { VirtualList } from "./virtual_list";

const ROW = 40;

export class Palette {
  readonly element: HTMLElement;
  private readonly input = el("input", {
    type: "search",
    class: "palette-input",
    placeholder: "Search: text, /regex/, op:add, shape:1,128, model.py:41, time>10us",
    "aria-label": "Search",
    spellcheck: "false",
    autocomplete: "off",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-hits",
  });
  private readonly told = el("div", { class: "palette-told", role: "status" });
  private readonly help = el(
    "dl",
    { class: "palette-help" },
    ...HELP.flatMap(([q, what]) => [el("dt", {}, this.example(q)), el("dd", {}, what)]),
  );
  private readonly list: VirtualList<Hit>;
  private result: SearchResult | null = null;
  private at = 0;
  private asked = 0;
  private timer = 0;

  constructor(
    private readonly app: App,
    private readonly overlays: Overlays,
    private readonly makeRule: (query: string) => void,
  ) {
    this.list = new VirtualList<Hit>({ load: (from, n) => this.load(from, n), render: (h, i) => this.row(h, i) }, ROW, {
      role: "listbox",
      id: "palette-hits",
      "aria-label": "Hits",
    });
    this.list.element.tabIndex = -1;
    this.element = el(
      "div",
      { class: "palette", role: "search", hidden: true },
      el(
        "div",
        { class: "palette-head" },
        this.input,
        button("Style", "Make a style rule of this search", () => this.toRule()),
        button("×", "Close (Esc)", () => this.close(true), "icon"),
      ),
      this.told,
      this.help,
      this.list.element,
    );
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.element.dataset.count = "";
      // Long enough to type on, short enough not to be waited for.
      this.timer = window.setTimeout(() => void this.run(), 40);
    });
    this.element.addEventListener("keydown", (e) => this.key(e));
    app.events.on("shown", ({ result }) => {
      if (result.update.reset && !this.element.hidden) void this.run();
    });
  }

  get query(): string {
    return this.element.hidden ? "" : this.input.value;
  }

  open(query?: string): void {
    this.element.hidden = false;
    this.dock();
    if (query !== undefined) this.input.value = query;
    this.input.focus();
    this.input.select();
    void this.run();
  }

  /** The list stands beside the drawing: what is gone to stays clear of it. */
  private dock(): void {
    const { view } = this.app;
    const wide = this.element.hidden ? 0 : this.element.offsetWidth;
    view.insets = { ...view.insets, left: wide < view.size.width * 0.6 ? wide : 0 };
  }

  /** Esc once closes and keeps nothing lit. */
  close(focus: boolean): void {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.dock();
    this.asked++;
    this.result = null;
    this.overlays.set("search", null);
    if (focus) this.app.view.canvas.focus({ preventScroll: true });
  }

  /** To the next or previous hit, also while the drawing has the focus. */
  next(by: number): void {
    const n = this.result?.items.length ?? 0;
    if (n > 0) void this.jump((this.at + by + n) % n);
    else this.open();
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  private example(query: string): HTMLElement {
    return el("button", { type: "button", class: "link", click: () => this.open(query) }, query);
  }

  private toRule(): void {
    const q = this.input.value.trim();
    if (q) this.makeRule(q);
  }

  private async run(): Promise<void> {
    if (!this.app.spec) return;
    const asked = ++this.asked;
    const text = this.input.value;
    const found = await this.app.engine.call("find", { text, limit: 60 });
    if (asked !== this.asked || this.element.hidden) return;
    const empty = text.trim() === "";
    this.result = empty || found.problem ? null : found;
    this.at = 0;
    this.help.hidden = !empty;
    this.list.element.hidden = empty || found.problem !== "" || found.items.length === 0;
    this.told.classList.toggle("trouble", found.problem !== "");
    this.told.textContent = empty ? "" : found.problem || this.counts(found, text);
    this.element.dataset.count = this.result ? String(found.items.length) : "";
    this.overlays.set("search", this.result && found.items.length > 0 ? { lit: found.lit } : null);
    this.list.element.scrollTop = 0;
    await this.list.setTotal(this.result ? found.items.length : 0);
  }

  private counts(r: SearchResult, text: string): string {
    if (r.items.length === 0) return `No node matches “${text.trim().slice(0, 80)}”`;
    const parts: string[] = [];
    if (r.nodes > 0) parts.push(`${count(r.nodes)} of ${count(r.total)} nodes`);
    if (r.outputs > 0) parts.push(`${count(r.outputs)} ${r.outputs === 1 ? "output" : "outputs"}`);
    if (r.groups > 0) parts.push(`${count(r.groups)} ${r.groups === 1 ? "group" : "groups"}`);
    return [parts.join(", "), r.sorted].filter(Boolean).join(" · ");
  }

  private async load(from: number, n: number): Promise<readonly Hit[]> {
    const r = this.result;
    if (!r) return [];
    if (from + n <= r.hits.length) return r.hits.slice(from, from + n);
    return this.app.engine.call("hits", { items: r.items.slice(from, from + n), text: this.input.value });
  }

  private row(h: Hit, index: number): HTMLElement {
    const [title, name] = h.title.split("  ");
    const out = el(
      "div",
      {
        class: index === this.at ? "hit chosen" : "hit",
        role: "option",
        id: `hit-${index}`,
        "aria-selected": index === this.at ? "true" : "false",
      },
      el("span", { class: `dot family-${h.family}`, "aria-hidden": "true" }),
      el(
        "span",
        { class: "hit-title" },
        h.group ? "▸ " : "",
        title,
        name ? el("span", { class: "soft" }, ` ${name}`) : "",
      ),
      el("code", {}, h.figure ? figure(h.figure.unit, h.figure.value) : h.sub),
      el("span", { class: "hit-where" }, h.where || "at the top"),
    );
    out.addEventListener("click", () => void this.jump(index));
    return out;
  }

  private async jump(index: number): Promise<void> {
    const item = this.result?.items[index];
    if (item === undefined) return;
    this.at = index;
    await this.app.reveal(item);
    await this.list.refresh(true);
  }

  private key(e: KeyboardEvent): void {
    const last = (this.result?.items.length ?? 0) - 1;
    const move = (to: number): void => {
      this.at = Math.min(last, Math.max(0, to));
      this.list.scrollTo(this.at);
      this.input.setAttribute("aria-activedescendant", `hit-${this.at}`);
      void this.list.refresh(true);
    };
    const keys: Record<string, () => void> = {
      ArrowDown: () => move(this.at + 1),
      ArrowUp: () => move(this.at - 1),
      PageDown: () => move(this.at + 8),
      PageUp: () => move(this.at - 8),
      Enter: () => void this.jump(this.at).then(() => undefined),
      Escape: () => this.close(true),
    };
    if (e.key === "Enter" && (e.target as HTMLElement).closest("button")) return;
    e.stopPropagation();
    const run = keys[e.key];
    if (!run) return;
    e.preventDefault();
    if (e.key === "Enter" && e.shiftKey) move(this.at - 1);
    run();
    // The next Enter goes on to the next hit.
    if (e.key === "Enter" && !e.shiftKey && last > 0) this.at = this.at >= last ? 0 : this.at + 1;
  }
}
