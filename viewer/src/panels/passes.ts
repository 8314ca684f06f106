/** What the strip at the bottom does: the stages of a recording in order, what each pass did, and stepping through them. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { count, seconds } from "../base/format";
import type { ItemName } from "../query/api";
import type { StageChange } from "../query/changes";
import { scrollWithin } from "./embedded";
import { button } from "./parts";

export class PassesPanel {
  readonly element: HTMLElement;
  private readonly strip = el("div", { class: "stages", role: "tablist", "aria-label": "Passes" });
  private readonly told = el("span", { class: "told", role: "status" });
  private readonly toggle: HTMLButtonElement;
  private changes: readonly StageChange[] = [];
  private graph = -1;
  private expanded = false;

  constructor(private readonly app: App) {
    this.toggle = button(
      "Changes",
      "Mark what the pass added and changed, keep what it removed in sight (\\)",
      () => this.toggleDiff(),
      "switch",
    );
    this.element = el(
      "nav",
      { class: "passes", "aria-label": "Passes", hidden: true },
      button("‹", "Previous pass ([)", () => void this.step(-1), "icon"),
      this.strip,
      button("›", "Next pass (])", () => void this.step(1), "icon"),
      this.told,
      this.toggle,
    );
    app.events.on("opened", ({ info }) => {
      this.graph = -1;
      const { graphs } = info.header;
      this.element.hidden = (graphs.find((g) => g.parent < 0) ?? graphs[0]).stages.length < 2;
    });
    app.events.on("shown", ({ spec }) => void this.shown(spec.graph));
  }

  async step(by: number): Promise<void> {
    const spec = this.app.spec;
    if (!spec) return;
    const stages = this.app.info?.header.graphs[spec.graph].stages.length ?? 1;
    const to = Math.min(stages - 1, Math.max(0, spec.stage + by));
    if (to !== spec.stage) await this.goTo(to);
  }

  /** Whoever steps wants to see what happened: marks come with the first step and stay until switched off. */
  async goTo(to: number): Promise<void> {
    await stageTo(this.app, to, true);
  }

  toggleDiff(): void {
    const spec = this.app.spec;
    if (spec && !this.element.hidden) void stageTo(this.app, spec.stage, !spec.diff);
  }

  private async shown(graph: number): Promise<void> {
    const info = this.app.info?.header.graphs[graph];
    if (!info) return;
    this.element.hidden = info.stages.length < 2;
    if (this.element.hidden) return;
    if (this.graph !== graph) {
      this.graph = graph;
      this.changes = await this.app.engine.call("stages", { graph });
    }
    this.draw();
  }

  /** Passes in a row that changed nothing are one small sign until somebody wants to see them; the one on show stays. */
  private collapsed(tabs: readonly HTMLElement[], names: readonly string[], stage: number): HTMLElement[] {
    const out: HTMLElement[] = [];
    for (let i = 0; i < tabs.length; ) {
      let end = i;
      while (end < tabs.length && end !== stage && tabs[end].classList.contains("idle")) end++;
      if (end === i || this.expanded) out.push(tabs[i++]);
      else {
        const text = `${end - i} ${end - i === 1 ? "pass" : "passes"} without changes: ${names.slice(i, end).join(", ")}`;
        out.push(
          el(
            "button",
            {
              type: "button",
              class: "stage-tab idle gap",
              role: "tab",
              "aria-selected": "false",
              title: text,
              "aria-label": text,
              click: () => this.expand(),
            },
            `⋯ ${end - i}`,
          ),
        );
        i = end;
      }
    }
    return out;
  }

  private expand(): void {
    this.expanded = true;
    this.draw();
  }

  private draw(): void {
    const spec = this.app.spec;
    const info = spec ? this.app.info?.header.graphs[spec.graph] : undefined;
    if (!spec || !info) return;
    const tabs = info.stages.map((s, i) => {
      const c = this.changes[i] as StageChange | undefined;
      const signs =
        c && i > 0
          ? ([
              ["+", c.added, "added"],
              ["−", c.removed, "removed"],
              ["~", c.changed, "changed"],
            ] as const)
          : [];
      const told = signs.filter(([, n]) => n > 0);
      return el(
        "button",
        {
          type: "button",
          role: "tab",
          class: told.length > 0 || i === 0 ? "stage-tab" : "stage-tab idle",
          "aria-selected": i === spec.stage ? "true" : "false",
          title: [s.doc || s.name, s.seconds > 0 ? seconds(s.seconds) : "", c ? `${count(c.nodes)} nodes` : ""]
            .filter(Boolean)
            .join(" · "),
          click: () => void this.goTo(i),
        },
        el("span", { class: "stage-name" }, s.name.replace(/Pass$/, "")),
        ...told.map(([sign, n, cls]) => el("span", { class: `sign ${cls}` }, `${sign}${count(n)}`)),
      );
    });
    this.strip.replaceChildren(
      ...this.collapsed(
        tabs,
        info.stages.map((s) => s.name),
        spec.stage,
      ),
    );
    scrollWithin(this.strip, this.strip.querySelector('[aria-selected="true"]'));
    this.toggle.setAttribute("aria-pressed", String(spec.diff ?? false));
    const c = this.changes[spec.stage] as StageChange | undefined;
    const parts =
      c && spec.stage > 0
        ? (
            [
              [c.added, "added"],
              [c.removed, "removed"],
              [c.changed, "changed"],
            ] as const
          )
            .filter(([n]) => n > 0)
            .map(([n, w]) => `${count(n)} ${w}`)
        : [];
    this.told.textContent = spec.stage === 0 || !spec.diff ? "" : parts.join(", ") || "nothing changed";
  }
}

/** Goes to a stage; what is selected keeps its place on screen, followed through rewrites to what stands for it. */
export async function stageTo(app: App, stage: number, diff: boolean): Promise<void> {
  const before = app.selected;
  const place = before >= 0 ? app.view.scene.place(before) : null;
  const name: ItemName | null = before >= 0 ? await app.engine.call("nameOf", { item: before }) : null;
  const { camera, fitted } = app.view;
  if (!(await app.setStage(stage, diff)) || !name) return;
  const [item] = await app.engine.call("itemsNamed", { names: [name] });
  if (item < 0) {
    app.select(-1);
    return;
  }
  await app.reveal(item);
  const now = app.view.scene.place(item);
  // What was seen whole is seen whole; otherwise the chosen one stays under the eye.
  if (fitted) app.view.fit(false);
  else if (place && now)
    app.view.go(camera.pan((place.x - now.x) * camera.scale, (place.y - now.y) * camera.scale), false);
}
