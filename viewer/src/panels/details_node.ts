/** What the details say of one node, from what it is to how it came to be and what it held. */

import type { App } from "../app/app";
import { el } from "../base/dom";
import { bytes, count, percent, seconds, short } from "../base/format";
import type { GroupDetails } from "../query/api";
import type { KernelFacts, Link, NodeDetails, NodeRef, Step } from "../query/details";
import { attributes, button, chip, facts, heading, link, section } from "./parts";
import type { Goto } from "./details";
import { codeLines, sourceView } from "./source_view";

export interface NodeActions {
  readonly go: Goto;
  readonly goNode: (ref: NodeRef) => void;
  readonly openGraph: (graph: number) => void;
  /** Puts the ops inside in the node's place, or the node back. */
  readonly unfold: () => void;
  readonly trace: (direction: "up" | "down") => void;
}

/** `module`: the module that holds this op and no other, and is shown as it. */
export function nodeDetails(
  app: App,
  d: NodeDetails,
  act: NodeActions,
  module: GroupDetails | null = null,
): HTMLElement[] {
  const full = d.kernels[0]?.title;
  const out: HTMLElement[] = [heading(full || (module ? module.title : d.title))];
  const what = el("p", {});
  if (module?.cls) what.append(chip(module.cls), " ");
  if (d.op && d.op !== d.title) what.append(chip(d.op, d.kind || "other"), " ");
  if (d.kind) what.append(chip(d.kind, d.kind), " ");
  if (d.pass) what.append(chip(`made by ${d.pass}`));
  out.push(what);
  out.push(
    el(
      "p",
      { class: "actions" },
      button("Upstream", "Light up all that this node needs (u)", () => act.trace("up")),
      button("Downstream", "Light up all that needs this node (d)", () => act.trace("down")),
      ...(module ? [button("Unfold", "Show the op in its module (Enter)", act.unfold)] : []),
      ...(d.unfolds && !module
        ? [
            button(
              d.unfolded ? "Fold inside" : "Unfold inside",
              "Show the ops inside this node in its place, or the node again (Enter)",
              act.unfold,
            ),
          ]
        : []),
      ...d.bodies.map((b) =>
        button(
          d.bodies.length > 1 ? `Open ${b.name}` : "Open alone",
          "Show the ops inside this node as a graph of their own",
          () => act.openGraph(b.graph),
        ),
      ),
    ),
  );
  out.push(
    facts([
      ["Name", d.name && d.name !== d.title ? d.name : ""],
      ["Id", d.id >= 0 ? `%${d.id}` : ""],
      [
        "Time",
        d.times.length > 0
          ? `${seconds(d.times[0].seconds)}${Number.isFinite(d.share) ? ` · ${percent(d.share)} of all` : ""}`
          : "",
      ],
      ["FLOPs", d.flops > 0 ? short(d.flops) : ""],
      ["Gradient of", d.gradOf ? refLink(d.gradOf, act) : ""],
      ["Rule", d.rule],
    ]),
  );
  if (d.file || d.frames.length > 0)
    out.push(section("Source", "", ...(d.file ? [sourceView(app, d.file, d.line)] : []), stack(d.frames)));
  for (const k of d.kernels) out.push(kernel(k, d, act));
  if (d.inputs.length > 0)
    out.push(section("Inputs", String(d.inputs.length), ...d.inputs.map((l, i) => inputRow(l, i, act))));
  if (d.outputs.length > 0)
    out.push(section("Outputs", String(d.outputs.length), ...d.outputs.map((o, i) => outputRow(o, i, act))));
  if (d.attrs.length > 0) out.push(section("Attributes", String(d.attrs.length), attributes(d.attrs)));
  if (d.made.length > 0)
    out.push(section("How it was made", String(d.made.length), ...d.made.map((s) => step(s, act))));
  if (d.became.length > 0)
    out.push(section("What became of it", String(d.became.length), ...d.became.map((s) => step(s, act))));
  if (d.rejects.length > 0)
    out.push(
      section(
        "Decided against",
        String(d.rejects.length),
        ...d.rejects.map((r) =>
          el(
            "div",
            { class: "step" },
            el(
              "div",
              {},
              chip(r.pass),
              ...(r.others.length > 0 ? [" with ", ...r.others.flatMap((o) => [refLink(o, act), " "])] : []),
            ),
            el("p", {}, r.why),
            r.numbers.length > 0
              ? el("p", { class: "soft" }, r.numbers.map(([k, v]) => (k ? `${k} ${figureOf(k, v)}` : v)).join(" · "))
              : "",
          ),
        ),
      ),
    );
  if (d.times.length > 1)
    out.push(
      section(
        "Times",
        String(d.times.length),
        facts(
          d.times.map(
            (t) => [t.run || "run", `${seconds(t.seconds)}${t.spread > 0 ? ` ± ${seconds(t.spread)}` : ""}`] as const,
          ),
        ),
      ),
    );
  if (d.errors.length > 0)
    out.push(
      section(
        "Numeric error",
        "",
        ...d.errors.map((e) =>
          facts([
            ["Stage", stageName(app, e.stage)],
            ["Its own", e.own.toExponential(2)],
            ["Inherited", e.inherited.toExponential(2)],
            ["Largest absolute", e.maxAbs.toExponential(2)],
            ["Largest relative", e.maxRel.toExponential(2)],
            ["Allowed", e.tolerance > 0 ? e.tolerance.toExponential(2) : ""],
          ]),
        ),
      ),
    );
  if (d.values.length > 0)
    out.push(
      section(
        "Values",
        "",
        ...d.values.map((v) =>
          el(
            "div",
            {},
            facts(v.facts.map(([k, n]) => [k, Number.isFinite(n) ? value(n) : ""] as const)),
            histogram(v),
            v.sample ? el("pre", { class: "sample", tabindex: 0 }, v.sample) : "",
          ),
        ),
      ),
    );
  if (d.data.length > 0) out.push(section("Data", String(d.data.length), attributes(d.data)));
  return out;
}

/** How many elements lie where between the smallest and the largest. */
function histogram(v: NodeDetails["values"][number]): HTMLElement | string {
  const most = Math.max(...v.histogram);
  if (v.histogram.length === 0 || !(most > 0)) return "";
  const [low, high] = (["minimum", "maximum"] as const).map((k) => v.facts.find(([name]) => name === k)?.[1] ?? NaN);
  const bars = v.histogram.map((n) => {
    const bar = el("span", {});
    bar.style.height = `${(n / most) * 100}%`;
    return bar;
  });
  return el(
    "div",
    {},
    el(
      "div",
      { class: "histogram", role: "img", "aria-label": `Histogram from ${value(low)} to ${value(high)}` },
      ...bars,
    ),
    el("div", { class: "histogram-ends" }, el("span", {}, value(low)), el("span", {}, value(high))),
  );
}

function stageName(app: App, stage: number): string {
  return app.spec ? (app.info?.header.graphs[app.spec.graph].stages[stage]?.name ?? String(stage)) : String(stage);
}

const value = (n: number): string => (Number.isInteger(n) ? count(n) : Number(n.toPrecision(4)).toString());
const figureOf = (key: string, v: string): string =>
  /bytes/.test(key) && Number.isFinite(Number(v)) ? bytes(Number(v)) : v;

function inputRow(l: Link, i: number, act: NodeActions): HTMLElement {
  return el(
    "div",
    { class: "port" },
    el("span", { class: "port-name" }, l.label || String(i)),
    l.item >= 0 ? link(l.title, () => act.go(l.item)) : el("span", { class: "soft" }, l.title),
    el("code", {}, l.type),
  );
}

function outputRow(o: NodeDetails["outputs"][number], i: number, act: NodeActions): HTMLElement {
  const users = o.users.flatMap((u) => [link(u.title, () => act.go(u.item)), " "]);
  return el(
    "div",
    { class: "port" },
    el("span", { class: "port-name" }, o.name || String(i)),
    el(
      "span",
      { class: "users" },
      ...(users.length > 0 ? ["→ ", ...users] : [el("span", { class: "soft" }, "not read")]),
      o.more > 0 ? el("span", { class: "soft" }, `and ${count(o.more)} more`) : "",
    ),
    el("code", {}, o.type),
  );
}

function refLink(ref: NodeRef, act: NodeActions): HTMLElement {
  const text = `${ref.title} %${ref.id}`;
  return ref.stage < 0
    ? el("span", { class: "soft" }, text)
    : link(
        text,
        () => act.goNode(ref),
        ref.item >= 0 ? text : `${text}: not in this stage; goes to the stage that has it`,
      );
}

function stack(frames: readonly string[]): HTMLElement | string {
  if (frames.length < 2) return "";
  return el(
    "details",
    { class: "stack" },
    el("summary", {}, `Call stack, ${frames.length} frames`),
    el("ol", {}, ...frames.map((f) => el("li", {}, f))),
  );
}

function step(s: Step, act: NodeActions): HTMLElement {
  const refs = (list: readonly NodeRef[]): (Node | string)[] => list.flatMap((r) => [refLink(r, act), " "]);
  return el(
    "div",
    { class: "step" },
    el("div", {}, chip(s.pass || "rewrite"), s.rule ? el("span", { class: "soft" }, ` ${s.rule}`) : ""),
    s.why ? el("p", {}, s.why) : "",
    el(
      "div",
      { class: "refs" },
      el("span", { class: "sign removed" }, "−"),
      " ",
      ...refs(s.before),
      el("br"),
      el("span", { class: "sign added" }, "+"),
      " ",
      ...refs(s.after),
    ),
  );
}

function kernel(k: KernelFacts, d: NodeDetails, act: NodeActions): HTMLElement {
  const time = d.times[0]?.seconds ?? NaN;
  const body: (Node | string)[] = [
    facts([
      ["Code", k.name],
      ["Variant", k.variant],
      ["Target", k.target],
      ["Runs", k.runs > 1 ? count(k.runs) : ""],
      ["Reads", k.bytesRead > 0 ? bytes(k.bytesRead) : ""],
      ["Writes", k.bytesWritten > 0 ? bytes(k.bytesWritten) : ""],
      ["FLOPs", k.flops > 0 ? short(k.flops) : ""],
      [
        "Speed",
        time > 0
          ? [
              k.flops > 0 ? `${short((k.flops * k.runs) / time).replace(/([kMGT]?)$/, "\u2009$1")}FLOP/s` : "",
              k.bytesRead + k.bytesWritten > 0 ? `${bytes(((k.bytesRead + k.bytesWritten) * k.runs) / time)}/s` : "",
            ]
              .filter(Boolean)
              .join(" · ")
          : "",
      ],
      ["Of the machine's limit", k.limit > 0 && time > 0 ? percent(k.limit / time) : ""],
      ["File", k.file],
    ]),
  ];
  if (k.ops.length > 1)
    body.push(el("div", { class: "refs" }, "Ops in order: ", ...k.ops.flatMap((o) => [refLink(o, act), " "])));
  if (k.candidates.length > 0) {
    body.push(
      el(
        "table",
        { class: "candidates" },
        el("caption", {}, "Variants tried"),
        ...k.candidates.map((c) =>
          el(
            "tr",
            { class: c.chosen ? "chosen" : "" },
            el("td", {}, c.chosen ? "✓" : ""),
            el("td", { title: c.why }, c.variant),
            el("td", { class: "figure" }, c.seconds > 0 ? seconds(c.seconds) : c.why),
          ),
        ),
      ),
    );
  }
  if (k.code) {
    // What it is stands first, its figures below: code is what one opens a kernel for.
    body.unshift(
      el(
        "details",
        { class: "generated", open: true },
        el("summary", {}, `Generated code (${k.language})`),
        codeLines(k.code, 0, Infinity),
        k.codeCut ? el("p", { class: "soft" }, "The rest is left out here.") : "",
      ),
    );
  }
  return section("Kernel", "", ...body);
}
