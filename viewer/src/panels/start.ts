/** What is there when no file is: a place to drop one, a button to choose one, those of this session, and what can be opened. */

import { el } from "../base/dom";
import { button } from "./parts";

/** A file that was given to the server or opened in this page. */
export interface Recent {
  readonly name: string;
  readonly open: () => void;
}

export interface StartHooks {
  readonly open: (file: File) => void;
  /** Whether a server converts other formats than .glass. */
  readonly converts: boolean;
}

const KNOWN =
  "Glasshouse recordings, PyTorch .pt2, ONNX, ExecuTorch .pte, TFLite, safetensors, MLIR text, Model Explorer and Hidet JSON, Jittor traces";

const MOST_RECENT = 8;

export class StartPage {
  readonly element: HTMLElement;
  private readonly told = el("p", { class: "trouble", role: "alert" });
  private readonly recent = el("nav", { class: "recent", "aria-label": "Recent files", hidden: true });
  private readonly back = button("×", "Back to the graph (Esc)", () => (this.element.hidden = true), "icon");
  private readonly file = el("input", { type: "file", hidden: true, "aria-label": "Select a file" });

  constructor(hooks: StartHooks) {
    this.element = el(
      "section",
      { class: "start", "aria-label": "Open a file", hidden: true },
      el(
        "div",
        { class: "drop" },
        this.back,
        el("h1", {}, "Drop a model here"),
        el(
          "p",
          {},
          button("Select from your computer", "Choose a file", () => this.file.click(), "primary"),
        ),
        this.file,
        el(
          "p",
          { class: "soft" },
          hooks.converts
            ? KNOWN
            : "A .glass recording. Other formats are converted first: glasshouse convert MODEL OUT.glass",
        ),
        el("p", { class: "soft" }, "It stays on this machine."),
        this.told,
        this.recent,
      ),
    );
    this.file.addEventListener("change", () => {
      const f = this.file.files?.[0];
      if (f) hooks.open(f);
      this.file.value = "";
    });
    // Anywhere on the page: nobody aims.
    window.addEventListener("dragover", (e) => {
      if (!e.dataTransfer?.types.includes("Files")) return;
      e.preventDefault();
      document.documentElement.classList.add("dropping");
    });
    window.addEventListener("dragleave", (e) => {
      if (e.relatedTarget === null) document.documentElement.classList.remove("dropping");
    });
    window.addEventListener("drop", (e) => {
      document.documentElement.classList.remove("dropping");
      const f = e.dataTransfer?.files[0];
      if (!f) return;
      e.preventDefault();
      hooks.open(f);
    });
  }

  /** Shows the page; with a graph behind it there is a way back. */
  show(recent: readonly Recent[], hasGraph: boolean): void {
    this.back.hidden = !hasGraph;
    this.recent.hidden = recent.length === 0;
    this.recent.replaceChildren(
      el("h2", {}, "Recent files"),
      el(
        "ul",
        {},
        ...recent.slice(0, MOST_RECENT).map((r) => el("li", {}, button(r.name, `Open ${r.name}`, r.open, "link"))),
      ),
    );
    this.element.hidden = false;
  }

  say(text: string): void {
    this.told.textContent = text;
  }
}
