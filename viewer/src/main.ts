/** The page's entry: builds the shell and opens the recording that came with the page. */

import { App } from "./app/app";
import { Shell } from "./app/shell";
import "./app/style.css";
import { startEngine } from "./engine/client";
import { Panels } from "./views/page";

const app = new App(startEngine());
const shell = new Shell(app, document.body);
declare global {
  interface Window {
    /** For tests and the benchmark. */
    glasshouse: App;
  }
}
window.glasshouse = app;

void new Panels(app, shell).begin();
