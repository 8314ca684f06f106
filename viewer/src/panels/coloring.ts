/** What "Colour by" does: boxes wear a measure, a figure and a bar; a legend says what the colours mean. */

import type { App } from "../app/app";
import { css, parseColor } from "../base/color";
import { el } from "../base/dom";
import { bytes, count, percent, seconds, short } from "../base/format";
import { IS_OPEN } from "../layout/scene_update";
import type { ColorData } from "../query/api";
import type { Unit } from "../query/measures";
import type { Overlays } from "./overlays";
import { button } from "./parts";
import { categories, inkOn, rampOf } from "./ramp";

export function figure(unit: Unit, v: number): string {
  if (!Number.isFinite(v)) return v === Infinity ? "∞" : "";
  if (unit === "seconds") return seconds(v);
  if (unit === "bytes") return bytes(v);
  if (unit === "count") return short(v);
  if (unit === "share") return percent(v);
  if (v === 0) return "0";
  const a = Math.abs(v);
  return a < 1e-3 || a >= 1e6 ? v.toExponential(1) : Number(v.toPrecision(3)).toString();
}

/** Under and over the legend. */
const LEGEND_ROOM = 14;

export class Coloring {
  readonly select = el("select", { "aria-label": "Colour by", title: "Colour by" });
  readonly legend = el("div", { class: "legend", role: "region", "aria-label": "Legend", hidden: true });
  private name = "";
  private wanted = "";

  constructor(
    private readonly app: App,
    private readonly overlays: Overlays,
  ) {
    this.select.addEventListener("change", () => void this.set(this.select.value));
    app.events.on("shown", ({ result }) => {
      if (result.update.reset) void this.refresh();
      // Folding changes what is drawn, and so the scale.
      else if (this.name) void this.paint();
    });
    app.events.on("theme", () => void this.paint());
  }

  get value(): string {
    return this.name;
  }

  /** A measure to colour by as soon as a file is open. */
  want(name: string): void {
    this.wanted = name;
  }

  async set(name: string): Promise<void> {
    this.name = name;
    this.select.value = name;
    await this.paint();
  }

  private async refresh(): Promise<void> {
    const names = await this.app.engine.call("measures", null);
    this.select.replaceChildren(
      el("option", { value: "" }, "Op type"),
      ...names.map((m) => el("option", { value: m.name }, m.title)),
    );
    if (this.wanted) {
      const w = this.wanted.toLowerCase();
      this.name =
        names.find(
          (m) => m.name.toLowerCase() === w || m.name.toLowerCase() === `data:${w}` || m.title.toLowerCase() === w,
        )?.name ?? "";
      this.wanted = "";
    }
    if (!names.some((m) => m.name === this.name)) this.name = "";
    this.select.value = this.name;
    await this.paint();
  }

  private async paint(): Promise<void> {
    const name = this.name;
    const c = name && this.app.spec ? await this.app.engine.call("color", { name }) : null;
    if (name !== this.name) return;
    const seen = this.legend.hidden === !c;
    this.legend.hidden = !c;
    const dark = document.documentElement.dataset.theme === "dark";
    if (!c) this.overlays.set("color", null);
    else if (c.labels && c.labels.length > 0) this.paintLabels(c, c.labels);
    else this.paintNumbers(c, dark);
    // The legend lies over the drawing's lower edge: what is fitted stays clear of it, however many lines it has.
    this.app.view.insets = { ...this.app.view.insets, bottom: c ? this.legend.offsetHeight + LEGEND_ROOM : 0 };
    if (!seen && this.app.result) this.clear();
  }

  /** Moves a drawing that was seen whole out from under the legend, or back. */
  private clear(): void {
    const { view } = this.app;
    const e = view.scene.extent();
    const { camera, size } = view;
    if (
      camera.x >= -1 &&
      camera.y >= -1 &&
      camera.x + e.w * camera.scale <= size.width + 1 &&
      camera.y + e.h * camera.scale <= size.height + 1
    )
      view.fit(false);
  }

  private paintNumbers(c: ColorData, dark: boolean): void {
    const ramp = rampOf(c, dark);
    const items = c.value.length;
    const fill = new Uint32Array(items);
    const text = new Uint32Array(items);
    const share = new Float32Array(items);
    for (let i = 0; i < items; i++) {
      const v = c.value[i];
      if (Number.isNaN(v) || (c.additive && v === 0)) continue;
      fill[i] = ramp.at(v);
      text[i] = inkOn(fill[i]);
      if (c.additive && c.total > 0) share[i] = v / c.total;
    }
    for (const [i, color] of c.colors ?? []) {
      const p = parseColor(color);
      if (p !== null) {
        fill[i] = p;
        text[i] = inkOn(p);
      }
    }
    const said = (item: number): string => {
      const v = c.value[item];
      if (Number.isNaN(v) || v === undefined || (c.additive && v === 0)) return "";
      // Headers of open groups have the room for a share.
      const at = item >= (this.app.result?.update.nodes ?? 0) ? this.app.view.scene.place(item) : null;
      const open = at !== null && (at.view.batch.flags[at.view.first + at.index] & IS_OPEN) !== 0;
      const n = copies.get(item) ?? 1;
      const told =
        n === 1 || c.mean
          ? figure(c.unit, v)
          : c.additive
            ? `${n} × ${figure(c.unit, v / n)}`
            : `≤ ${figure(c.unit, v)}`;
      return open && c.additive && v / c.total >= 0.001 ? `${told} · ${percent(v / c.total)}` : told;
    };
    const copies = new Map(c.copies);
    for (const [item, each] of c.runs) copies.set(item, each.length);
    const runs = new Map(c.runs);
    this.overlays.set("color", {
      fill,
      text,
      share: c.additive ? share : undefined,
      figure: said,
      bars: (item) => runs.get(item) ?? null,
    });
    const bar = el("canvas", { class: "ramp", width: 180, height: 10, "aria-hidden": "true" });
    const ctx = bar.getContext("2d");
    const [from, to] = [ramp.ticks[0] ?? 0, ramp.ticks[ramp.ticks.length - 1] ?? 1];
    for (let x = 0; ctx && x < 180; x++) {
      const t = x / 179;
      ctx.fillStyle = css(
        ramp.at(
          ramp.kind === "log"
            ? 10 ** (Math.log10(from) + (Math.log10(to) - Math.log10(from)) * t)
            : from + (to - from) * t,
        ),
      );
      ctx.fillRect(x, 0, 1, 10);
    }
    this.legend.replaceChildren(
      this.head(c),
      el("div", {}, bar, el("div", { class: "ticks" }, ...ramp.ticks.map((t) => el("span", {}, figure(c.unit, t))))),
      el(
        "div",
        { class: "soft" },
        [
          c.absent || (c.known === 0 ? "no op has a figure" : ""),
          ...(c.absent || c.known === 0
            ? []
            : [
                c.additive ? `${figure(c.unit, c.total)} in all` : `largest ${figure(c.unit, c.high)}`,
                c.note,
                ramp.kind === "log" ? "scale by ratio" : "",
                "scaled to what is drawn",
              ]),
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    );
  }

  private paintLabels(c: ColorData, labels: readonly (readonly [number, string])[]): void {
    const { color, count: counts } = categories(labels);
    const given = new Map(c.colors ?? []);
    const fill = new Uint32Array(c.value.length);
    const text = new Uint32Array(c.value.length);
    const of = new Map(labels);
    for (const [i, label] of labels) {
      fill[i] = parseColor(given.get(i) ?? "") ?? color.get(label) ?? 0;
      text[i] = inkOn(fill[i]);
    }
    this.overlays.set("color", { fill, text, figure: (item) => of.get(item)?.slice(0, 24) ?? "" });
    const rows = [...color].slice(0, 10).map(([t, k]) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = css(k);
      return el(
        "div",
        { class: "legend-row" },
        swatch,
        el("span", { class: "row-title" }, t),
        el("span", { class: "figure" }, count(counts.get(t) ?? 0)),
      );
    });
    this.legend.replaceChildren(
      this.head(c),
      ...rows,
      color.size > 10 ? el("div", { class: "soft" }, `and ${color.size - 10} more`) : "",
    );
  }

  private head(c: ColorData): HTMLElement {
    return el(
      "div",
      { class: "legend-head" },
      el("strong", {}, c.title),
      c.known < 1 && c.known > 0 && !c.absent ? el("span", { class: "soft" }, ` of ${percent(c.known)} of ops`) : "",
      button("×", "Colour by op type again", () => void this.set(""), "icon small"),
    );
  }
}
