/** How style rules are kept: a list that anyone can edit, import and export; the first rule that fits a box colours it. */

import type { App } from "../app/app";
import { css, parseColor } from "../base/color";
import { el } from "../base/dom";
import { count } from "../base/format";
import { styleColor, type StyleRule } from "../query/rules";
import { save } from "./export";
import type { Overlays } from "./overlays";
import { button } from "./parts";

const IDS = [
  ["node_bg_color", "Fill"],
  ["node_border_color", "Border"],
  ["node_text_color", "Text"],
] as const;
const TINTS = ["#ffe3a8", "#cfe3fb", "#d4ecd9", "#f6d2dc", "#e3daf4", "#cdecec"];

export class StylesPanel {
  readonly element = el("div", { class: "panel styles", role: "region", "aria-label": "Styles" });
  private rules: StyleRule[] = [];
  private counts: readonly number[] = [];
  private problems: readonly string[] = [];
  private asked = 0;
  private fresh = false;
  private readonly list = el("ol", { class: "rules" });
  private readonly told = el("p", { class: "soft", role: "status" });

  constructor(
    private readonly app: App,
    private readonly overlays: Overlays,
  ) {
    const file = el("input", { type: "file", accept: ".json,application/json", hidden: true });
    file.addEventListener("change", () => {
      const chosen = file.files?.[0];
      if (chosen) void chosen.text().then((t) => this.importText(t, chosen.name));
      file.value = "";
    });
    this.element.append(
      el("h2", {}, "Styles"),
      el("p", { class: "soft" }, "What a search finds gets these colours. The first rule that fits wins."),
      this.list,
      el(
        "p",
        { class: "actions" },
        button("Add rule", "A rule of its own", () => this.add("")),
        button("Import", "Read rules from a file, also Model Explorer's", () => file.click()),
        button("Export", "Write the rules to a file that Model Explorer reads too", () => this.exportFile()),
        file,
      ),
      this.told,
    );
    app.events.on("opened", () => {
      this.fresh = true;
      this.rules = [];
    });
    app.events.on("shown", ({ result }) => {
      if (result.update.reset) void this.shown();
    });
    this.draw();
  }

  add(query: string): void {
    const color = TINTS[this.rules.length % TINTS.length];
    this.rules = [
      ...this.rules,
      {
        queries: [{ type: "query", query }],
        styles: {
          node_bg_color: { id: "node_bg_color", value: color },
          node_text_color: { id: "node_text_color", value: "#1d1f23" },
        },
      },
    ];
    this.draw();
    void this.apply();
    this.list.querySelector<HTMLInputElement>("li:last-child input[type=text]")?.focus();
  }

  private async shown(): Promise<void> {
    if (this.fresh) {
      this.fresh = false;
      for (const json of await this.app.engine.call("extras", { kind: "rule" })) {
        try {
          const rule = readRule(JSON.parse(json) as unknown);
          if (rule) this.rules = [...this.rules, rule];
        } catch {
          this.told.textContent = "A style rule in this file can't be read; the others are used.";
        }
      }
    }
    this.draw();
    await this.apply();
  }

  importText(text: string, name: string): void {
    try {
      const value: unknown = JSON.parse(text);
      const rules = (Array.isArray(value) ? value : [value]).map(readRule).filter((r) => r !== null);
      if (rules.length === 0) throw new Error("it holds no rule with queries and styles");
      this.rules = [...this.rules, ...rules];
      this.told.textContent = `${count(rules.length)} ${rules.length === 1 ? "rule" : "rules"} from ${name}`;
    } catch (e) {
      this.told.textContent = `${name} can't be used: ${e instanceof Error ? e.message : String(e)}`;
      return;
    }
    this.draw();
    void this.apply();
  }

  private exportFile(): void {
    save("glasshouse.rules.json", new Blob([JSON.stringify(this.rules, null, 1)], { type: "application/json" }));
  }

  private async apply(): Promise<void> {
    const asked = ++this.asked;
    if (this.rules.length === 0 || !this.app.spec) {
      this.overlays.set("rules", null);
      this.draw();
      return;
    }
    const r = await this.app.engine.call("styles", { rules: this.rules });
    if (asked !== this.asked) return;
    this.counts = r.counts;
    this.problems = r.problems;
    this.overlays.set("rules", { fill: r.fill, border: r.border, text: r.text, sheet: r.fill });
    this.tell();
  }

  /** Counts change as one types; the boxes that are typed into stay. */
  private tell(): void {
    [...this.list.children].forEach((li, i) => {
      const out = li.querySelector(".rule-count");
      if (!out) return;
      const n = this.counts[i] ?? 0;
      out.textContent = this.problems[i] || `${count(Math.max(0, n))} ${n === 1 ? "box" : "boxes"}`;
      out.classList.toggle("trouble", Boolean(this.problems[i]));
    });
  }

  private change(i: number, rule: StyleRule | null): void {
    this.rules = this.rules.flatMap((r, k) => (k !== i ? [r] : rule ? [rule] : []));
    if (!rule) this.draw();
    void this.apply();
  }

  private draw(): void {
    this.list.replaceChildren(...this.rules.map((rule, i) => this.row(rule, i)));
    this.tell();
  }

  private row(rule: StyleRule, i: number): HTMLElement {
    const own = rule.queries.length === 1 && rule.queries[0].type === "query";
    const query = own
      ? el("input", {
          type: "text",
          value: String(rule.queries[0].query ?? ""),
          "aria-label": "Query",
          spellcheck: "false",
          placeholder: "op:matmul",
        })
      : el("code", { class: "foreign", title: "An imported rule" }, words(rule));
    if (query instanceof HTMLInputElement) {
      query.addEventListener("input", () =>
        this.change(i, { ...this.rules[i], queries: [{ type: "query", query: query.value }] }),
      );
      query.addEventListener("keydown", (e) => e.stopPropagation());
    }
    const on = el("input", { type: "checkbox", "aria-label": "Use this rule", checked: rule.enabled !== false });
    on.addEventListener("change", () => this.change(i, { ...this.rules[i], enabled: on.checked }));
    const colors = IDS.map(([id, title]) => {
      const now = styleColor(rule, id);
      const parsed = parseColor(now);
      const box = el("input", {
        type: "color",
        value: parsed === null ? "#ffffff" : css(parsed).slice(0, 7),
        title,
        "aria-label": title,
      });
      if (parsed === null) box.classList.add("unset");
      box.addEventListener("input", () => {
        box.classList.remove("unset");
        const r = this.rules[i];
        this.change(i, { ...r, styles: { ...r.styles, [id]: { id, value: box.value } } });
      });
      return box;
    });
    return el(
      "li",
      {},
      el(
        "div",
        { class: "rule-line" },
        on,
        query,
        button("×", "Remove this rule", () => this.change(i, null), "icon small"),
      ),
      el("div", { class: "rule-line" }, ...colors, el("span", { class: "rule-count soft" })),
    );
  }
}

/** A foreign rule in words, as it cannot be typed over. */
function words(rule: StyleRule): string {
  return rule.queries
    .map((q) =>
      q.type === "regex"
        ? `/${String(q.queryRegex)}/`
        : q.type === "node_type"
          ? String(q.nodeType)
          : q.type === "attr_value_range"
            ? `${String(q.attrName)} ${String(q.min ?? "")}..${String(q.max ?? "")}`
            : String(q.query ?? q.type),
    )
    .join(" and ");
}

function readRule(value: unknown): StyleRule | null {
  if (typeof value !== "object" || value === null) return null;
  const v = value as { queries?: unknown; styles?: unknown };
  if (!Array.isArray(v.queries) || typeof v.styles !== "object" || v.styles === null) return null;
  if (!v.queries.every((q) => typeof q === "object" && q !== null)) return null;
  return value as StyleRule;
}
