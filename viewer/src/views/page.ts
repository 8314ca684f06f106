/** How the page is put together around the drawing: which panels there are and how they speak with each other. */

import type { App } from "../app/app";
import type { Shell } from "../app/shell";
import { embedded } from "../base/data";
import { el } from "../base/dom";
import { count } from "../base/format";
import { Breadcrumbs } from "../panels/breadcrumbs";
import { Coloring } from "../panels/coloring";
import { DetailsPanel } from "../panels/details";
import { Drawer } from "../panels/drawer";
import { waitForClick } from "../panels/embedded";
import { saveJson, savePng, saveSvg } from "../panels/export";
import { Help } from "../panels/help";
import { listenToKeys } from "../panels/keys";
import { LargeGroup } from "../panels/large_group";
import { Links, readPlace } from "../panels/links";
import { LiveRegion } from "../panels/live";
import { Menu } from "../panels/menu";
import { readOptions, Server, type ServedFile } from "../panels/options";
import { OutlinePanel } from "../panels/outline";
import { Notice } from "../panels/notice";
import { Overlays } from "../panels/overlays";
import { Palette } from "../panels/palette";
import "../panels/panels.css";
import { button } from "../panels/parts";
import { PassesPanel, stageTo } from "../panels/passes";
import { Side } from "../panels/sides";
import { StartPage, type Recent } from "../panels/start";
import { StylesPanel } from "../panels/styles";
import type { KernelLine } from "../query/kernel_table";
import { Compare, type Loaded } from "./compare";

export class Panels {
  readonly options = readOptions(document);
  private readonly overlays: Overlays;
  private readonly palette: Palette;
  private readonly styles: StylesPanel;
  private readonly coloring: Coloring;
  private readonly passes: PassesPanel;
  private readonly links: Links;
  private readonly help = new Help();
  private readonly large: LargeGroup;
  private readonly drawer: Drawer;
  private readonly notice: Notice;
  private readonly left: Side;
  private readonly right: Side;
  private readonly start: StartPage;
  private readonly server: Server | null;
  private readonly graphs = el("select", { "aria-label": "Graph", title: "Graph", hidden: true });
  private readonly files = el("select", { "aria-label": "File", title: "File", hidden: true });
  private readonly told = el("div", { class: "toast", role: "status", hidden: true });
  private compare: Compare | null = null;
  private served: ServedFile[] = [];
  /** Files that this page opened by itself, newest first. */
  private opened: File[] = [];
  /** How to get the bytes of the open file again: a second pane reads them for itself. */
  private again: () => Promise<Loaded> = () => Promise.reject(new Error("no file is open"));

  constructor(
    private readonly app: App,
    private readonly shell: Shell,
  ) {
    const { slots } = shell;
    this.server = this.options.server ? new Server() : null;
    this.overlays = new Overlays(app);
    this.styles = new StylesPanel(app, this.overlays);
    this.palette = new Palette(app, this.overlays, (q) => {
      this.right.setOpen(true, 1);
      this.styles.add(q);
    });
    this.coloring = new Coloring(app, this.overlays);
    this.passes = new PassesPanel(app);
    this.links = new Links(
      app,
      () => this.coloring.value,
      () => this.palette.query,
    );
    this.large = new LargeGroup(app);
    const outline = new OutlinePanel(app);
    const details = new DetailsPanel(app, {
      search: (q) => this.palette.open(q),
      trace: (item, direction) => void this.trace(item, direction),
      goNode: (ref) => void (ref.item >= 0 ? app.reveal(ref.item) : this.goToStage(ref.id, ref.stage)),
      openGraph: (graph) => this.openGraph(graph),
    });
    const wide = window.innerWidth;
    this.left = new Side(
      app,
      slots.left,
      "left",
      [{ title: "Outline", key: "o", element: outline.element, setVisible: (v) => outline.setVisible(v) }],
      240,
    );
    this.right = new Side(
      app,
      slots.right,
      "right",
      [
        { title: "Details", key: "i", element: details.element, setVisible: (v) => details.setVisible(v) },
        { title: "Styles", key: "", element: this.styles.element, setVisible: () => undefined },
      ],
      wide >= 1500 ? 340 : 300,
    );
    this.start = new StartPage({ open: (f) => void this.openFile(f), converts: this.server !== null });
    const crumbs = new Breadcrumbs(app, (g) => this.openGraph(g));
    slots.path.append(crumbs.element);
    slots.over.append(
      this.large.element,
      this.palette.element,
      this.coloring.legend,
      this.start.element,
      this.told,
      this.help.element,
    );
    slots.over.append(new LiveRegion(app).element);
    this.notice = new Notice(app);
    this.drawer = new Drawer(app);
    slots.bottom.append(this.notice.element, this.drawer.element, this.passes.element);
    const menu = new Menu("⋯", "More", () => this.commands());
    slots.toolbar.append(
      this.files,
      this.graphs,
      el("label", { class: "field" }, "Colour by ", this.coloring.select),
      button("Tables", "Kernels, time by module and memory (k)", () => this.drawer.toggle(), "wide-only"),
      button("Search", "Search (/)", () => this.palette.open()),
      menu.element,
    );
    const bar = slots.toolbar.parentElement;
    bar?.prepend(this.left.tab);
    bar?.append(
      button("?", "Keys (?)", () => this.help.toggle(), "icon"),
      this.right.tab,
    );
    this.listen();
    waitForClick((text) => this.say(text));
    if (this.options.theme) shell.setTheme(this.options.theme);
    if (this.options.color) this.coloring.want(this.options.color);
  }

  private arranged = false;

  /** The graph keeps most of the window: on a laptop the outline starts folded, on less both do. */
  private arrange(): void {
    if (this.arranged) return;
    this.arranged = true;
    // The frame of a notebook has no width until the notebook has been laid out; most are as wide as a laptop.
    const wide = window.innerWidth || 1280;
    if (wide >= 1500) this.left.setOpen(true);
    if (wide >= 1100) this.right.setOpen(true);
  }

  private listen(): void {
    const { app } = this;
    this.graphs.addEventListener("change", () => this.openGraph(Number(this.graphs.value)));
    this.files.addEventListener("change", () => void this.openServed(this.files.value));
    this.coloring.select.addEventListener("change", () => this.links.later());
    app.events.on("opened", ({ info }) => {
      this.start.element.hidden = true;
      this.arrange();
      document.documentElement.dataset.file = "1";
      this.closeCompare();
      const roots = info.header.graphs.map((g, i) => [g, i] as const).filter(([g]) => g.parent < 0);
      this.graphs.hidden = roots.length < 2;
      this.graphs.replaceChildren(
        ...roots.slice(0, 2000).map(([g, i]) => el("option", { value: i }, g.name || `graph ${i}`)),
      );
    });
    app.events.on("shown", ({ spec, result }) => {
      this.graphs.value = String(spec.graph);
      // A file that has groups, but none by module, opens by what it has.
      if (result.groupings.length > 0 && !result.groupings.includes(spec.grouping))
        void app.setGrouping(result.groupings[0]);
    });
    app.events.on("selected", () => {
      if (this.overlays.has("trace")) this.untrace();
    });
    window.addEventListener("hashchange", () => {
      const place = readPlace(location.hash);
      if (place && this.links.isForeign) void this.links.apply(place);
    });
    listenToKeys(app, {
      search: () => this.palette.open(),
      nextHit: (by) => this.palette.next(by),
      help: () => this.help.toggle(),
      step: (by) => void this.passes.step(by),
      diff: () => this.passes.toggleDiff(),
      outline: () => this.left.toggle(),
      details: () => this.right.toggle(),
      tables: () => this.drawer.toggle(),
      trace: (direction) => void (app.selected >= 0 && this.trace(app.selected, direction)),
      compare: () => void this.toggleCompare(),
      back: () => {
        if (this.palette.isOpen) this.palette.close(true);
        else if (!this.start.element.hidden && app.spec) this.start.element.hidden = true;
        else if (this.large.isOpen) this.large.close();
        else if (this.overlays.has("trace")) this.untrace();
        else return false;
        return true;
      },
    });
  }

  // --------------------------------------------------------------------------------------- files
  /** Opens what came with the page, what its server offers, or the start page. */
  async begin(): Promise<void> {
    const bytes = embedded(document);
    if (bytes) {
      this.again = () => Promise.resolve({ bytes: embedded(document) as Uint8Array, name: this.app.fileName });
      await this.open({ bytes, name: document.title });
      return;
    }
    const files = this.options.server?.files ?? [];
    this.served = [...files];
    const first = new URLSearchParams(location.search).get("open") ?? this.options.server?.open ?? "";
    this.listFiles(first);
    if (first) await this.openServed(first);
    else this.showStart();
    document.documentElement.dataset.ready = "1";
  }

  private showStart(): void {
    const local = this.opened.map((f): Recent => ({ name: f.name, open: () => void this.openFile(f) }));
    const served = [...this.served]
      .reverse()
      .map((f): Recent => ({ name: f.name, open: () => void this.openServed(f.id) }));
    this.start.show([...local, ...served], this.app.spec !== null);
  }

  private listFiles(current: string): void {
    this.files.hidden = this.served.length < 2;
    this.files.replaceChildren(
      ...this.served.map((f) => el("option", { value: f.id, selected: f.id === current }, f.name)),
    );
  }

  private async open(file: Loaded): Promise<void> {
    const place = readPlace(location.hash);
    const { grouping, graph, stage } = this.options;
    const given = {
      ...(grouping === undefined ? {} : { grouping }),
      ...(graph === undefined ? {} : { graph }),
      ...(stage === undefined ? {} : { stage }),
    };
    if (place?.color) this.coloring.want(place.color);
    await this.app.open(file.bytes, file.name, place ? { ...given, ...place.spec } : given);
    if (place && this.app.spec) await this.links.finish(place);
    const query = place?.query || this.options.query;
    if (query) this.palette.open(query);
    if (this.options.hint && !place) this.showHint(this.options.hint);
    if (this.options.select && !place) await this.selectFirst(this.options.select);
    if (this.options.compare) await this.toggleCompare();
  }

  /** What the page's maker wants seen first. */
  private async selectFirst(what: string): Promise<void> {
    const { engine } = this.app;
    if (what !== "slowest") {
      const [item] = (await engine.call("find", { text: what, limit: 1 })).items;
      if (item !== undefined) await this.app.reveal(item);
      return;
    }
    const [first] = (await engine.call("kernelLines", null)).lines as readonly (KernelLine | undefined)[];
    if (first) await this.app.reveal(first.home >= 0 ? first.home : first.item);
  }

  private showHint(text: string): void {
    const hint = el(
      "p",
      { class: "hint", role: "note" },
      text,
      button("×", "Close this hint", () => hint.remove(), "icon small"),
    );
    this.shell.slots.bottom.insertBefore(hint, this.passes.element);
  }

  private async openServed(id: string): Promise<void> {
    const { server } = this;
    const file = this.served.find((f) => f.id === id);
    if (!server) return;
    try {
      const name = file?.name ?? id;
      this.again = async () => ({ bytes: await server.recording(id), name });
      await this.open(await this.again());
    } catch (e) {
      this.app.events.emit("failed", e instanceof Error ? e : new Error(String(e)));
    }
  }

  private async openFile(file: File): Promise<void> {
    this.start.say("");
    try {
      if (/\.rules\.json$/i.test(file.name) && this.app.spec) {
        this.styles.importText(await file.text(), file.name);
        return;
      }
      const limit = this.options.server?.limit ?? Infinity;
      if (file.size > limit)
        throw new Error(`${file.name} is larger than this server takes (${count(limit / 1e6)} MB).`);
      if (this.server && !/\.glass$/i.test(file.name)) {
        const made = await this.server.upload(file.name, file);
        this.served = [...this.served, made];
        this.listFiles(made.id);
        await this.openServed(made.id);
        return;
      }
      this.opened = [file, ...this.opened.filter((f) => f !== file)];
      this.again = async () => ({ bytes: new Uint8Array(await file.arrayBuffer()), name: file.name });
      await this.open(await this.again());
    } catch (e) {
      const text = e instanceof Error ? e.message : String(e);
      if (this.app.spec) this.say(text);
      else this.start.say(text);
    }
  }

  // -------------------------------------------------------------------------------------- places
  private openGraph(graph: number): void {
    const { spec, info } = this.app;
    if (!spec || !info) return;
    this.app.select(-1);
    const stage = info.header.graphs[graph].stages.length - 1;
    void this.app.show({ ...spec, graph, stage, diff: false, fold: { base: "first", changes: [] } }, { fit: true });
  }

  private async goToStage(id: number, stage: number): Promise<void> {
    await stageTo(this.app, stage, this.app.spec?.diff ?? false);
    const [item] = await this.app.engine.call("itemsNamed", { names: [{ node: id }] });
    if (item >= 0) await this.app.reveal(item);
  }

  private async trace(item: number, direction: "up" | "down"): Promise<void> {
    const { lit, nodes } = await this.app.engine.call("trace", { item, direction });
    this.overlays.set("trace", { lit });
    const where = direction === "up" ? "upstream" : "downstream";
    this.say(`${count(nodes)} ${nodes === 1 ? "node" : "nodes"} ${where} · Esc to show all`, true);
  }

  private untrace(): void {
    this.overlays.set("trace", null);
    this.told.hidden = true;
  }

  private async toggleCompare(): Promise<void> {
    if (this.compare) {
      this.closeCompare();
      return;
    }
    if (!this.app.spec) return;
    const file = await this.again();
    if (window.innerWidth < 1700) {
      this.left.setOpen(false);
      this.right.setOpen(false);
    }
    this.compare = new Compare(this.app, this.shell.main, this.overlays, () => this.closeCompare());
    await this.compare.open(file);
  }

  private closeCompare(): void {
    this.compare?.dispose();
    this.compare = null;
  }

  private commands(): ReturnType<ConstructorParameters<typeof Menu>[2]> {
    const { app } = this;
    return [
      { text: "Unfold all", key: "e", run: () => void app.unfoldAll() },
      { text: "Fold all", key: "c", run: () => void app.foldAll() },
      { text: "Flatten", key: "g", run: () => void app.flatten() },
      { text: "Fit", key: "f", run: () => app.view.fit() },
      { text: "First view", key: "h", run: () => void app.firstView() },
      {
        text: app.spec?.across ? "Flow downwards" : "Flow to the right",
        key: "t",
        run: () => void app.setAcross(!(app.spec?.across ?? false)),
      },
      { text: this.compare ? "One pane" : "Two panes", key: "s", run: () => void this.toggleCompare() },
      { text: "Kernels, time and memory", key: "k", run: () => this.drawer.toggle() },
      { text: "Style rules", run: () => this.right.setOpen(true, 1) },
      null,
      { text: "Undo", key: "Ctrl Z", run: () => void app.undo() },
      { text: "Redo", key: "Ctrl Shift Z", run: () => void app.redo() },
      { text: "Copy link to this place", run: () => void this.copyLink() },
      null,
      { text: "Save view as PNG", run: () => void savePng(app, false) },
      { text: "Save view as SVG", run: () => saveSvg(app, false) },
      { text: "Save whole graph as PNG", run: () => void savePng(app, true).catch((e: Error) => this.say(e.message)) },
      { text: "Save whole graph as SVG", run: () => saveSvg(app, true) },
      { text: "Save graph as JSON", run: () => void saveJson(app) },
      null,
      { text: "Open a file", run: () => this.showStart() },
    ];
  }

  private async copyLink(): Promise<void> {
    this.links.write();
    const url = location.href.replace(/#.*$/, "") + this.links.hash;
    try {
      await navigator.clipboard.writeText(url);
      this.say("The link is in the clipboard.");
    } catch {
      // Browsers give no clipboard to pages from disk without asking; the address bar has the link.
      this.say("The link stands in the address bar.");
    }
  }

  private sayTimer = 0;

  private say(text: string, stays = false): void {
    this.told.textContent = text;
    this.told.hidden = false;
    clearTimeout(this.sayTimer);
    if (!stays) this.sayTimer = window.setTimeout(() => (this.told.hidden = true), 6000);
  }
}
