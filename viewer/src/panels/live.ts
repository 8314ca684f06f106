/** What a screen reader says while one walks the graph: the node that is selected, its type and where it stands. */

import type { App } from "../app/app";
import { el } from "../base/dom";

export class LiveRegion {
  readonly element = el("div", { class: "live", role: "status", "aria-live": "polite" });
  private asked = 0;

  constructor(private readonly app: App) {
    app.events.on("selected", (item) => void this.tell(item));
  }

  private async tell(item: number): Promise<void> {
    const asked = ++this.asked;
    if (item < 0) {
      this.element.textContent = "Nothing is selected";
      return;
    }
    const [hit] = await this.app.engine.call("hits", { items: Int32Array.of(item), text: "" });
    if (asked !== this.asked) return;
    const kind = hit.group ? "module" : "";
    this.element.textContent = [
      hit.title.replace(/\s+/g, " "),
      kind,
      hit.sub,
      hit.where ? `in ${hit.where.replaceAll(" › ", ", ")}` : "at the top",
    ]
      .filter(Boolean)
      .join(", ");
  }
}
