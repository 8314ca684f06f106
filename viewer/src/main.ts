/** The page's entry: builds the shell and opens the recording that came with the page. */

import { App } from "./app/app";
import { Shell } from "./app/shell";
import "./app/style.css";
import { embedded } from "./base/data";
import { startEngine } from "./engine/client";

const app = new App(startEngine());
new Shell(app, document.body);
declare global {
  interface Window {
    /** For tests and the benchmark. */
    glasshouse: App;
  }
}
window.glasshouse = app;

const bytes = embedded(document);
if (bytes) void app.open(bytes, document.title);
