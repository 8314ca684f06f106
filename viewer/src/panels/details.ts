/** What the details panel shows: the selection, or the whole model when nothing is selected; never nothing. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import type { NodeRef } from "../query/details";
import { groupDetails, modelDetails } from "./details_model";
import { nodeDetails, type NodeActions } from "./details_node";
import { startClosed } from "./parts";

export type Goto = (item: number) => void;

export interface DetailsHooks {
  readonly search: (query: string) => void;
  readonly trace: (item: number, direction: "up" | "down") => void;
  readonly goNode: (ref: NodeRef) => void;
  readonly openGraph: (graph: number) => void;
}

export class DetailsPanel {
  readonly element = el("div", { class: "panel details", role: "region", "aria-label": "Details", tabindex: -1 });
  private asked = 0;
  private visible = false;

  constructor(
    private readonly app: App,
    private readonly hooks: DetailsHooks,
  ) {
    startClosed("About this file", "What became of it");
    app.events.on("selected", () => void this.refresh());
    app.events.on("shown", ({ result }) => {
      if (result.update.reset) void this.refresh();
    });
  }

  setVisible(visible: boolean): void {
    this.visible = visible;
    if (visible) void this.refresh();
  }

  async refresh(): Promise<void> {
    const { app } = this;
    if (!this.visible || !app.spec) return;
    const asked = ++this.asked;
    const item = app.selected;
    const nodes = app.result?.update.nodes ?? 0;
    const go: Goto = (i) => void app.reveal(i);
    let parts: HTMLElement[];
    try {
      if (item < 0) parts = modelDetails(app, await app.engine.call("summary", null), go, this.hooks.search);
      else {
        const group = item >= nodes ? await app.engine.call("group", { item }) : null;
        // The unfolded inside of a node tells what the node tells: its kernel, code, times and errors.
        const d = group ? (group.inside ?? group.sole) : await app.engine.call("node", { item });
        if (group && !d) parts = groupDetails(app, group, go, this.hooks.search);
        else parts = d ? nodeDetails(app, d, this.actions(item, go), group && !group.inside ? group : null) : [];
      }
    } catch (e) {
      parts = [
        el(
          "p",
          { class: "trouble" },
          `This part of the file can't be read: ${e instanceof Error ? e.message : String(e)}`,
        ),
      ];
    }
    if (asked !== this.asked) return;
    const { scrollTop } = this.element;
    this.element.replaceChildren(...parts);
    this.element.scrollTop = this.element.dataset.item === String(item) ? scrollTop : 0;
    this.element.dataset.item = String(item);
  }

  private actions(item: number, go: Goto): NodeActions {
    const { app, hooks } = this;
    return {
      go,
      goNode: hooks.goNode,
      openGraph: hooks.openGraph,
      trace: (direction) => hooks.trace(item, direction),
      unfold: () => void app.toggle(item),
    };
  }
}
