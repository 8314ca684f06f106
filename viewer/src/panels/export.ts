/** What can be taken away from the page: pictures of the view or of all of it, and the graph as JSON. */

import type { App } from "../app/app";

/** Hands a file to the browser's own "save"; nothing leaves the machine. */
export function save(name: string, data: Blob): void {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(data);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

const nameOf = (app: App, ext: string): string =>
  `${(app.info?.header.title || app.fileName || "graph").replace(/[^\w.-]+/g, "_").slice(0, 60)}.${ext}`;

export function saveSvg(app: App, whole: boolean): void {
  save(nameOf(app, "svg"), new Blob([app.view.toSvg(whole)], { type: "image/svg+xml" }));
}

export async function savePng(app: App, whole: boolean): Promise<void> {
  save(nameOf(app, "png"), await app.view.toPng(whole));
}

export async function saveJson(app: App): Promise<void> {
  save(nameOf(app, "json"), new Blob([await app.engine.call("json", null)], { type: "application/json" }));
}
