/** What the details say of a whole model or of a group: totals, op counts, largest tensors, facts of the file. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { bytes, count, percent, seconds, short } from "../base/format";
import type { GroupDetails } from "../query/api";
import type { RunFigures } from "../query/runs";
import type { Summary } from "../query/summary";
import { figure } from "./coloring";
import { attributes, barRow, button, tallRow, chip, facts, cutLeft, heading, limited, link, section } from "./parts";
import type { Goto } from "./details";
import { sourceView } from "./source_view";

const known = (v: number): boolean => Number.isFinite(v) && v > 0;

function totals(s: Summary): HTMLElement {
  return facts([
    ["Ops", count(s.ops)],
    ["Nodes", s.nodes === s.ops ? "" : count(s.nodes)],
    ["Edges", `${count(s.edges)}${s.broken > 0 ? ` and ${count(s.broken)} broken` : ""}`],
    ["Groups", s.groups > 0 ? count(s.groups) : ""],
    ["Parameters", s.params > 0 ? `${short(s.params)}${s.paramBytes > 0 ? ` (${bytes(s.paramBytes)})` : ""}` : ""],
    [
      "FLOPs",
      known(s.flops)
        ? el("span", { title: s.flopsNote }, `${short(s.flops)}${s.flopsNote.startsWith("est") ? " (estimated)" : ""}`)
        : "",
    ],
    ["Bytes written", known(s.bytes) ? bytes(s.bytes) : ""],
    ["Time", known(s.time) ? seconds(s.time) : s.timeNote],
    ["Largest error", known(s.error) ? s.error.toExponential(1) : ""],
    ["With source line", s.withSource > 0 ? percent(s.withSource / Math.max(1, s.nodes)) : ""],
  ]);
}

/** "FusedMatmul*" in words. */
const opWords = (op: string): string => op.replace(/^Fused(\w+)\*$/, "$1, fused with others");

function opCounts(s: Summary, search: (query: string) => void): HTMLElement | string {
  if (s.opCounts.length === 0) return "";
  const most = s.opCounts[0].count;
  const rows = s.opCounts.map((o) =>
    barRow(
      el(
        "span",
        {},
        el("span", { class: `dot family-${o.kind || "other"}`, "aria-hidden": "true" }),
        link(opWords(o.op), () => search(`op:"${o.op}"`), `Find all ${o.op}`),
      ),
      count(o.count),
      o.count / most,
    ),
  );
  return section("Op counts", String(s.opCounts.length), limited(rows, 12, "ops"));
}

function tensors(s: Summary, go: Goto): HTMLElement | string {
  if (s.tensors.length === 0) return "";
  const most = s.tensors[0].bytes;
  return section(
    "Largest tensors",
    "",
    ...s.tensors.map((t) =>
      barRow(
        el(
          "span",
          {},
          link(cutLeft(t.name, t.weight ? 28 : 20), () => go(t.item), `${t.name}: ${t.type}`),
          el("code", {}, t.weight ? "" : t.count > 1 ? `${t.type} × ${t.count}` : t.type),
        ),
        bytes(t.bytes),
        t.bytes / most,
      ),
    ),
  );
}

function slowest(s: Summary, go: Goto): HTMLElement | string {
  if (s.slowest.length === 0) return "";
  const most = s.slowest[0].seconds;
  return section(
    "Slowest",
    seconds(s.time),
    ...s.slowest.map((t) =>
      tallRow(
        link(cutLeft(t.title, 140), () => go(t.item), t.title),
        `${seconds(t.seconds)} · ${percent(t.seconds / s.time)}`,
        t.seconds / most,
      ),
    ),
  );
}

export function modelDetails(app: App, s: Summary, go: Goto, search: (query: string) => void): HTMLElement[] {
  const header = app.info?.header;
  const spec = app.spec;
  if (!header || !spec) return [];
  const info = header.graphs[spec.graph];
  const stage = info.stages[spec.stage];
  const wall = wallTime(header.facts);
  const calling = Number(header.facts["call seconds"]);
  const out = [
    heading(header.title || info.name || "Model"),
    el(
      "p",
      { class: "soft" },
      [info.name !== header.title ? info.name : "", info.stages.length > 1 ? `after ${stage.name}` : ""]
        .filter(Boolean)
        .join(" · "),
    ),
    totals(s),
    // Kernels and their memory are there from the stage on that has times.
    ...(s.timeNote ? [] : memoryPlan(header.facts)),
  ];
  if (known(s.time) && wall > 0) {
    // Timed one by one, kernels lose what running together gives them; then no share can be told.
    out.push(
      el(
        "p",
        { class: "soft" },
        s.time <= wall
          ? `Kernels make up ${seconds(s.time)} of ${seconds(wall)} wall time; ${
              calling > 0
                ? `calling and returning takes ${percent(calling / wall)}`
                : `${percent(1 - s.time / wall)} is not attributed`
            }.`
          : `A whole run takes ${seconds(wall)}; its kernels, timed one by one, ${seconds(s.time)} in all.`,
      ),
    );
  }
  const fileFacts = [...Object.entries(header.facts), ...Object.entries(info.attrs)];
  const parts = [
    slowest(s, go),
    opCounts(s, search),
    tensors(s, go),
    passText(stage),
    fileFacts.length > 0
      ? section("About this file", "", attributes([...fileFacts, ["made by", header.generator]]))
      : "",
  ];
  for (const p of parts) if (typeof p !== "string") out.push(p);
  return out;
}

/** Bytes of a cache line, which every plan keeps free behind its end. */
const LINE = 64;

/** How much memory intermediate tensors take in one arena, against what they would take side by side. */
function memoryPlan(f: Readonly<Record<string, string>>): HTMLElement[] {
  // What a running kernel needs for itself lies behind the tensors.
  const work = Number(f["workspace bytes"] ?? 0);
  const arena = Number(f["arena bytes"] ?? f["memory arena"]) - work;
  const sum = Number(f["tensor bytes"] ?? f["memory sum"]);
  return arena > 0 && sum > 0
    ? [
        facts([
          ["Memory plan", `${bytes(arena)} in one arena, ${percent(arena / sum)} of the tensors' ${bytes(sum)}`],
          ["Workspace", work > LINE ? `${bytes(work)} for the kernel that runs` : ""],
        ]),
      ]
    : [];
}

function wallTime(f: Readonly<Record<string, string>>): number {
  const text = f["wall time"] ?? f.wall_time ?? f["wall seconds"] ?? "";
  const m = /^([\d.e+-]+)\s*(s|ms|us|µs|ns)?$/.exec(text.trim());
  return m ? Number(m[1]) * ({ ms: 1e-3, us: 1e-6, µs: 1e-6, ns: 1e-9, s: 1 }[m[2] ?? "s"] ?? 1) : 0;
}

function passText(stage: {
  readonly pass_name: string;
  readonly doc: string;
  readonly seconds: number;
  readonly options: Readonly<Record<string, string>>;
}): HTMLElement | string {
  if (!stage.pass_name) return "";
  return section(
    "This pass",
    stage.seconds > 0 ? seconds(stage.seconds) : "",
    el("p", {}, stage.doc || stage.pass_name),
    attributes(Object.entries(stage.options)),
  );
}

/** Mean and range over identical groups, with a bar for each that goes to it. */
function runSection(f: RunFigures, go: Goto): HTMLElement {
  const bars = f.each.map((e) => {
    const bar = el("span", { class: "run-bar" });
    bar.style.height = `${Math.max(2, (e.value / f.high) * 100)}%`;
    const text = `${e.title}: ${figure(f.unit, e.value)}`;
    return el(
      "button",
      { type: "button", class: "run-column", title: text, "aria-label": text, click: () => go(e.item) },
      bar,
    );
  });
  const range = f.high > f.low ? `${figure(f.unit, f.low)} to ${figure(f.unit, f.high)}` : "all alike";
  return section(
    `${f.title} of each`,
    `mean ${figure(f.unit, f.mean)}`,
    el("p", { class: "soft" }, `${range}, ${count(f.each.length)} in all`),
    el("div", { class: "run-bars" }, ...bars),
  );
}

export function groupDetails(app: App, d: GroupDetails, go: Goto, search: (query: string) => void): HTMLElement[] {
  const out: HTMLElement[] = [
    heading(d.title),
    el("p", {}, ...(d.cls ? [chip(d.cls), " "] : []), ...(d.repeat > 0 ? [chip(`${d.repeat} identical`)] : [])),
    el(
      "p",
      { class: "actions" },
      button("Unfold or fold", "Unfold or fold this group (Enter)", () => void app.toggle(d.item)),
      ...(d.repeat > 0
        ? [button("Unfold each", "Show each of the identical groups", () => void app.setFold(d.item, 2))]
        : []),
    ),
    ...(d.repeat > 0 ? [el("p", { class: "soft" }, `All ${count(d.repeat)} together:`)] : []),
    totals(d),
  ];
  for (const f of d.each) if (f.high > f.low || f.name === "time") out.push(runSection(f, go));
  if (d.file) out.push(section("Source", "", sourceView(app, d.file, d.line)));
  if (d.attrs.length > 0) out.push(section("Attributes", String(d.attrs.length), attributes(d.attrs)));
  for (const p of [
    slowest(d, go),
    opCounts(d, (q) => search(d.pathName ? `${q} in:="${d.pathName}"` : q)),
    tensors(d, go),
  ])
    if (typeof p !== "string") out.push(p);
  return out;
}
