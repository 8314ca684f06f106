/** How a draw list is written as SVG: real shapes and texts, nothing that a name could break out of. */

import { alphaOf, css, type Rgba } from "../base/color";
import { BOX_WORDS, CURVE_WORDS, FILL_WORDS, HATCHED, LINE_WORDS, type DrawList, type TextItem } from "./draw_list";
import { MONO, SANS, TextFit } from "./fonts";

const n = (v: number): string => (Math.round(v * 100) / 100).toString();

const escapeXml = (s: string): string =>
  // Control characters are not allowed in XML at all.
  s
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c] ?? c);

function paint(kind: "fill" | "stroke", c: Rgba): string {
  if (alphaOf(c) === 0) return `${kind}="none"`;
  const solid = css((c | 0xff000000) >>> 0);
  return alphaOf(c) === 255 ? `${kind}="${solid}"` : `${kind}="${solid}" ${kind}-opacity="${n(alphaOf(c) / 255)}"`;
}

export function svgOf(list: DrawList, width: number, height: number, background: Rgba): string {
  const out: string[] = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${n(width)}" height="${n(height)}" viewBox="0 0 ${n(width)} ${n(height)}">`,
    `<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="1.6" height="8" fill="#6f737a" fill-opacity="0.28"/></pattern></defs>`,
    `<rect width="100%" height="100%" ${paint("fill", background)}/>`,
  ];
  const ctx = typeof document === "undefined" ? null : document.createElement("canvas").getContext("2d");
  const fit = ctx ? new TextFit(ctx) : null;
  for (const [what, start, end] of list.runs) {
    for (let i = start; i < end; i++) {
      if (what === "texts") text(list.texts[i], fit, out);
      else if (what === "fills") fill(list, i, out);
      else if (what === "lines") line(list, i, out);
      else if (what === "curves") curve(list, i, out);
      else box(list[what], i, out);
    }
  }
  out.push("</svg>");
  return out.join("\n");
}

function text(t: TextItem, fit: TextFit | null, out: string[]): void {
  const shown = fit ? fit.cut(t.text, t.px, t.face, t.maxWidth) : t.text;
  if (!shown) return;
  const anchor = t.align === 0 ? "" : t.align === 1 ? ' text-anchor="end"' : ' text-anchor="middle"';
  const family = (t.face === "mono" ? MONO : SANS).replace(/"/g, "'");
  const weight = t.face === "bold" ? ' font-weight="600"' : "";
  out.push(
    `<text x="${n(t.x)}" y="${n(t.y)}" dy="0.36em" font-family="${family}" font-size="${n(t.px)}"${weight}${anchor} ${paint("fill", t.color)}>${escapeXml(shown)}</text>`,
  );
}

function fill(list: DrawList, i: number, out: string[]): void {
  const { f, u } = list.fills;
  const a = i * FILL_WORDS;
  out.push(
    `<rect x="${n(f[a])}" y="${n(f[a + 1])}" width="${n(f[a + 2])}" height="${n(f[a + 3])}" ${paint("fill", u[a + 4])}/>`,
  );
}

function box(marks: DrawList["boxes"], i: number, out: string[]): void {
  const { f, u } = marks;
  const a = i * BOX_WORDS;
  const [x, y, w, h, radius, stripe, border, pattern] = f.subarray(a, a + 8);
  const inset = border / 2;
  const shape = `x="${n(x + inset)}" y="${n(y + inset)}" width="${n(Math.max(0, w - border))}" height="${n(Math.max(0, h - border))}" rx="${n(Math.min(radius, w / 2, h / 2))}"`;
  const line = border > 0 && alphaOf(u[a + 9]) > 0 ? ` ${paint("stroke", u[a + 9])} stroke-width="${n(border)}"` : "";
  out.push(`<rect ${shape} ${paint("fill", u[a + 8])}${line}/>`);
  if (pattern === HATCHED) out.push(`<rect ${shape} fill="url(#hatch)"/>`);
  if (stripe > 0) {
    // The stripe follows the round corners of the left side.
    const r = Math.min(radius, h / 2);
    out.push(
      `<path d="M${n(x + stripe)} ${n(y + inset)}L${n(x + Math.max(r, inset))} ${n(y + inset)}Q${n(x + inset)} ${n(y + inset)} ${n(x + inset)} ${n(y + r)}V${n(y + h - r)}Q${n(x + inset)} ${n(y + h - inset)} ${n(x + Math.max(r, inset))} ${n(y + h - inset)}L${n(x + stripe)} ${n(y + h - inset)}Z" ${paint("fill", u[a + 10])}/>`,
    );
  }
}

function line(list: DrawList, i: number, out: string[]): void {
  const { f, u } = list.lines;
  const a = i * LINE_WORDS;
  if (f[a + 5] < f[a + 4]) {
    const dx = f[a + 2] - f[a];
    const dy = f[a + 3] - f[a + 1];
    const d = Math.hypot(dx, dy) || 1;
    const nx = ((-dy / d) * f[a + 4]) / 2;
    const ny = ((dx / d) * f[a + 4]) / 2;
    out.push(
      `<path d="M${n(f[a] + nx)} ${n(f[a + 1] + ny)}L${n(f[a] - nx)} ${n(f[a + 1] - ny)}L${n(f[a + 2])} ${n(f[a + 3])}Z" ${paint("fill", u[a + 6])}/>`,
    );
    return;
  }
  out.push(
    `<path d="M${n(f[a])} ${n(f[a + 1])}L${n(f[a + 2])} ${n(f[a + 3])}" fill="none" ${paint("stroke", u[a + 6])} stroke-width="${n(f[a + 4])}"/>`,
  );
}

function curve(list: DrawList, i: number, out: string[]): void {
  const { f, u } = list.curves;
  const a = i * CURVE_WORDS;
  out.push(
    `<path d="M${n(f[a])} ${n(f[a + 1])}C${n(f[a + 2])} ${n(f[a + 3])} ${n(f[a + 4])} ${n(f[a + 5])} ${n(f[a + 6])} ${n(f[a + 7])}" fill="none" ${paint("stroke", u[a + 10])} stroke-width="${n(f[a + 8])}"/>`,
  );
}
