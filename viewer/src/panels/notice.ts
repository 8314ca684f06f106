/** The line that tells what was mended in a file: each part goes to the first node that it speaks of. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { count } from "../base/format";
import { button, link } from "./parts";

export class Notice {
  readonly element = el("div", { class: "notice", role: "status", hidden: true });
  private asked = 0;

  constructor(private readonly app: App) {
    app.events.on("shown", ({ result }) => {
      if (result.update.reset) void this.refresh();
    });
  }

  private async refresh(): Promise<void> {
    const asked = ++this.asked;
    const r = await this.app.engine.call("repairs", null);
    if (asked !== this.asked) return;
    const parts = (
      [
        [
          r.broken,
          r.brokenAt,
          "edge leads from a node that the file does not have",
          "edges lead from nodes that the file does not have",
        ],
        [r.cut, r.cutAt, "edge closes a cycle", "edges close cycles"],
        [r.doubled, r.doubledAt, "node has an id that another has too", "nodes have ids that others have too"],
      ] as const
    ).filter(([n]) => n > 0);
    const told = this.app.info?.header.facts.repairs ?? "";
    this.element.hidden = parts.length === 0 && !told;
    const words = parts.flatMap(([n, item, one, many], i) => [
      i > 0 ? "; " : "",
      link(`${count(n)} ${n === 1 ? one : many}`, () => void this.app.reveal(item)),
    ]);
    this.element.replaceChildren(
      el("span", {}, "Opened with repairs: ", told, told && words.length > 0 ? "; " : "", ...words, "."),
      button("×", "Close this note", () => (this.element.hidden = true), "icon small"),
    );
  }
}
