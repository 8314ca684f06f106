// How the bundle is made: one script, the worker inside it as text, everything in one HTML file.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const LIMIT = 700 * 1024; // compressed; see docs: the bundle's budget
const watch = process.argv.includes("--watch");
const common = {
  bundle: true,
  minify: true,
  target: "es2022",
  legalComments: "none",
  write: false,
  logLevel: "warning",
  jsx: "automatic",
  jsxImportSource: "preact",
};

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** A script element ends at "</script"; inside strings the slash may be escaped without changing them. */
const inert = (js) => js.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");

async function page(result) {
  const js = inert(result.outputFiles.find((f) => f.path.endsWith(".js")).text.trim());
  const css = (result.outputFiles.find((f) => f.path.endsWith(".css"))?.text ?? "").trim();
  const csp = [
    "default-src 'none'",
    `script-src ${hash(js)} blob:`,
    "worker-src blob:",
    `style-src ${hash(css)} 'unsafe-hashes'`,
    "style-src-attr 'unsafe-inline'",
    "img-src data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const template = await readFile("index.html", "utf8");
  const html = template
    .replace("{{csp}}", () => csp)
    .replace("{{css}}", () => css)
    .replace("{{js}}", () => js);
  await rm("dist", { recursive: true, force: true });
  await mkdir("dist");
  await writeFile("dist/viewer.html", html);
  const packed = gzipSync(html, { level: 9 }).length;
  console.log(`dist/viewer.html ${(html.length / 1024).toFixed(0)} KB, ${(packed / 1024).toFixed(0)} KB compressed`);
  if (packed > LIMIT) throw new Error(`the bundle is over its budget of ${LIMIT} bytes compressed`);
}

// `define` must be known before the main build starts, so the worker is built first.
async function once() {
  const made = await build({ ...common, entryPoints: ["src/worker.ts"], format: "iife" });
  const define = { GLASS_WORKER: JSON.stringify(made.outputFiles[0].text) };
  await page(await build({ ...common, entryPoints: ["src/main.ts"], format: "iife", outdir: "dist", define }));
}

await once();
if (watch) {
  const { watch: onChange } = await import("node:fs");
  let timer;
  onChange("src", { recursive: true }, () => {
    clearTimeout(timer);
    timer = setTimeout(() => once().catch((e) => console.error(e.message)), 100);
  });
}
