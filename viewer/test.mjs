// How unit tests run: each test file bundled by esbuild, then node's own test runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";

const files = readdirSync("test", { recursive: true })
  .map(String)
  .filter((f) => f.endsWith(".test.ts"));
const outdir = "node_modules/.cache/glasshouse-test";
await build({
  entryPoints: files.map((f) => join("test", f)),
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  outdir,
  outExtension: { ".js": ".mjs" },
  sourcemap: "inline",
  logLevel: "warning",
});
const wanted = process.argv.slice(2);
const run = files
  .filter((f) => wanted.length === 0 || wanted.some((w) => f.includes(w)))
  .map((f) => join(outdir, f.replace(/\.ts$/, ".mjs")));
process.exit(spawnSync(process.execPath, ["--enable-source-maps", "--test", ...run], { stdio: "inherit" }).status ?? 1);
