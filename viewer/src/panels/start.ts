/** Decides what is there when no file is: a place to drop one, a button to choose one, and what can be opened. */

import { el } from "../base/dom";
import { button } from "./parts";

export interface StartHooks {
  readonly open: (file: File) => void;
  /** Whether a server converts other formats than .glass. */
  readonly converts: boolean;
}

const KNOWN = "Glasshouse recordings, PyTorch .pt2, ONNX, ExecuTorch .pte, TFLite, safetensors, MLIR text, Model Explorer and Hidet JSON, Jittor traces";

export class StartPage {
  readonly element: HTMLElement;
  private readonly told = el("p", { class: "trouble", role: "alert" });
  private readonly file = el("input", { type: "file", hidden: true, "aria-label": "Select a file" });

  constructor(hooks: StartHooks) {
    this.element = el(
      "section", { class: "start", "aria-label": "Open a file", hidden: true },
      el("div", { class: "drop" }, el("h1", {}, "Drop a model here"), el("p", {}, button("Select from your computer", "Choose a file", () => this.file.click(), "primary")), this.file,
        el("p", { class: "soft" }, hooks.converts ? KNOWN : "A .glass recording. Other formats are converted first: glasshouse convert MODEL OUT.glass"),
        el("p", { class: "soft" }, "It stays on this machine."), this.told),
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

  choose(): void {
    this.file.click();
  }

  say(text: string): void {
    this.told.textContent = text;
  }
}
