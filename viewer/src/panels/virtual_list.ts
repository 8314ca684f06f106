/** How long lists are shown: only the rows in view exist, however many there are. */

import { el } from "../base/dom";

export interface ListSource<Row> {
  /** Rows from `from` on; may answer later. */
  readonly load: (from: number, count: number) => Promise<readonly Row[]>;
  readonly render: (row: Row, index: number) => HTMLElement;
}

const SLACK = 12;

export class VirtualList<Row> {
  readonly element: HTMLElement;
  private readonly sheet = el("div", { class: "rows", role: "presentation" });
  private total = 0;
  private asked = 0;
  private shownFrom = -1;
  private shownTo = -1;
  private version = 0;

  constructor(
    private readonly source: ListSource<Row>,
    private readonly rowHeight: number,
    attributes: Record<string, string>,
  ) {
    this.element = el("div", { class: "list", tabindex: 0, ...attributes }, this.sheet);
    this.element.addEventListener("scroll", () => void this.refresh(false));
    new ResizeObserver(() => void this.refresh(false)).observe(this.element);
  }

  get length(): number {
    return this.total;
  }

  /** The list changed: everything in view is asked for again. */
  async setTotal(total: number): Promise<void> {
    this.total = total;
    this.sheet.style.height = `${total * this.rowHeight}px`;
    await this.refresh(true);
  }

  scrollTo(index: number): void {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight)
      this.element.scrollTop = top + this.rowHeight - clientHeight;
  }

  /** Draws the rows in view; without `again` only when the view moved past what is drawn. */
  async refresh(again: boolean): Promise<void> {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.floor(scrollTop / this.rowHeight);
    const last = Math.min(this.total, Math.ceil((scrollTop + clientHeight) / this.rowHeight));
    if (!again && first >= this.shownFrom && last <= this.shownTo) return;
    const from = Math.max(0, first - SLACK);
    const to = Math.min(this.total, last + SLACK);
    const asked = ++this.asked;
    const version = again ? ++this.version : this.version;
    const rows = to > from ? await this.source.load(from, to - from) : [];
    // An older answer to a newer question is no answer.
    if (asked !== this.asked || version !== this.version) return;
    this.shownFrom = from;
    this.shownTo = to;
    this.sheet.replaceChildren(
      ...rows.map((row, i) => {
        const e = this.source.render(row, from + i);
        e.style.top = `${(from + i) * this.rowHeight}px`;
        e.style.height = `${this.rowHeight}px`;
        e.setAttribute("aria-setsize", String(this.total));
        e.setAttribute("aria-posinset", String(from + i + 1));
        return e;
      }),
    );
  }
}
