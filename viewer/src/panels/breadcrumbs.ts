/** How a person sees where the selection is: the path of groups around it, each a way back up. */

import type { App } from "../app/app";
import { el } from "../base/dom";

export class Breadcrumbs {
  readonly element = el("nav", { class: "crumbs", "aria-label": "Where this is", hidden: true });
  private asked = 0;

  constructor(
    private readonly app: App,
    private readonly openGraph: (graph: number) => void,
  ) {
    app.events.on("selected", () => void this.refresh());
    app.events.on("shown", () => void this.refresh());
  }

  private async refresh(): Promise<void> {
    const { app } = this;
    const asked = ++this.asked;
    const spec = app.spec;
    const graphs = app.info?.header.graphs;
    if (!spec || !graphs) return;
    const parts: HTMLElement[] = [];
    const above: number[] = [];
    for (let g = graphs[spec.graph].parent; g >= 0 && above.length < 20; g = graphs[g].parent) above.push(g);
    for (const g of above.reverse()) parts.push(this.crumb(graphs[g].name || "model", () => this.openGraph(g)));
    const item = app.selected;
    if (item >= 0) {
      const [hit] = await app.engine.call("hits", { items: Int32Array.of(item), text: "" });
      const nodes = app.result?.update.nodes ?? 0;
      const path =
        item < nodes ? (await app.engine.call("node", { item })).path : (await app.engine.call("group", { item })).path;
      if (asked !== this.asked) return;
      parts.push(this.crumb(graphs[spec.graph].name || "model", () => app.select(-1)));
      for (const p of path) parts.push(this.crumb(p.title, () => void app.reveal(p.item)));
      parts.push(el("span", { class: "crumb here", "aria-current": "true" }, hit.title.split("  ")[0]));
    } else parts.push(el("span", { class: "crumb here", "aria-current": "true" }, graphs[spec.graph].name || "model"));
    this.element.hidden = false;
    this.element.replaceChildren(
      ...parts.flatMap((p, i) => (i > 0 ? [el("span", { class: "soft", "aria-hidden": "true" }, "›"), p] : [p])),
    );
  }

  private crumb(text: string, run: () => void): HTMLElement {
    return el("button", { type: "button", class: "crumb", title: text, click: () => run() }, text);
  }
}
