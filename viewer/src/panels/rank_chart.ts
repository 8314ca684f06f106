/** Ranks over time: a lane for each, collectives lined up, so that one sees who is waited for and what keeps it. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { seconds } from "../base/format";
import type { RankBar, RankLane } from "../query/ranks";
import type { DrawerPart } from "./drawer";

/** Bars narrower than this share of the chart have no text. */
const READABLE = 0.04;

export class RankChart implements DrawerPart {
  readonly title = "Ranks";
  readonly element = el("div", { class: "drawer-part" });
  private readonly chart = el("div", { class: "ranks" });
  private readonly told = el("span", { class: "soft", role: "status" });
  private bars = new Map<number, HTMLElement>();

  constructor(
    private readonly app: App,
    private readonly go: (item: number) => void,
  ) {
    this.element.append(
      el("div", { class: "drawer-bar" }, this.told),
      el("div", { class: "chart-room", tabindex: 0, role: "group", "aria-label": "Ranks over time" }, this.chart),
    );
  }

  /** Files of one process have no such lanes, and need no empty tab for them. */
  get there(): boolean {
    return this.app.info?.header.facts.ranks !== undefined;
  }

  async refresh(): Promise<void> {
    const all = await this.app.engine.call("rankLanes", null);
    this.bars = new Map();
    this.told.textContent =
      all.lanes.length === 0
        ? "This graph was measured on one rank alone."
        : [
            `${seconds(all.seconds)} from the beginning of a call; ranks leave a collective together`,
            ...all.notes,
          ].join(". ");
    const lines = all.meetings.map((at) => {
      const line = el("div", { class: "rank-meeting", title: `all have left a collective: ${seconds(at)}` });
      line.style.left = `${(at / all.seconds) * 100}%`;
      return line;
    });
    const lanes = all.lanes.map((lane) => lane.bars.map((b) => this.bar(lane, b, all.seconds)));
    this.chart.replaceChildren(
      ...all.lanes.flatMap((lane, i) => [
        el("span", { class: "rank-name" }, `rank ${lane.rank}`),
        el("div", { class: "rank-lane" }, ...lanes[i]),
      ]),
      el("div", { class: "rank-meetings" }, ...lines),
    );
    // Items are those of the graph that is shown.
    const own = all.lanes.findIndex((lane) => lane.graph === this.app.spec?.graph);
    if (own < 0) return;
    const items = await this.app.engine.call("itemsNamed", {
      names: all.lanes[own].bars.map((b) => ({ node: b.node })),
    });
    this.bars = new Map(items.map((item, i) => [item, lanes[own][i]] as const));
  }

  selected(item: number): void {
    for (const [i, bar] of this.bars) bar.classList.toggle("chosen", i === item);
  }

  private bar(lane: RankLane, b: RankBar, whole: number): HTMLElement {
    const does = b.waits ? "waits for a collective" : b.title;
    const text = `rank ${lane.rank}: ${does}, ${seconds(b.seconds)} from ${seconds(b.start)}`;
    const out = el(
      "button",
      {
        type: "button",
        class: b.waits ? "rank-bar waits" : "rank-bar",
        title: text,
        "aria-label": text,
        click: () => void this.open(lane, b),
      },
      b.seconds > READABLE * whole ? does : "",
    );
    out.style.left = `${(b.start / whole) * 100}%`;
    out.style.width = `${(b.seconds / whole) * 100}%`;
    return out;
  }

  /** Goes to the node of a bar; that of another rank stands in its own graph. */
  private async open(lane: RankLane, b: RankBar): Promise<void> {
    const { spec } = this.app;
    if (!spec) return;
    if (spec.graph !== lane.graph && !(await this.app.show({ ...spec, graph: lane.graph }, { fit: true }))) return;
    const [item] = await this.app.engine.call("itemsNamed", { names: [{ node: b.node }] });
    if (item >= 0) this.go(item);
  }
}
