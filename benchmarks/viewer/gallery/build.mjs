// Bundles quality.ts with the viewer's own esbuild: node build.mjs OUT.cjs
import { createRequire } from "node:module";

const { build } = createRequire(new URL("../../../viewer/package.json", import.meta.url))("esbuild");
await build({
  entryPoints: [new URL("quality.ts", import.meta.url).pathname], bundle: true, platform: "node", format: "cjs", target: "node20",
  logLevel: "error", outfile: process.argv[2],
});
