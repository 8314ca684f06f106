/** How a question is written: words, /regex/, field:value, file:line, measure>number; one language for search and styles. */

/** How a value is compared: part of the text, the whole of it, or a pattern. Case never matters. */
export type Pattern =
  | { readonly how: "part"; readonly text: string }
  | { readonly how: "whole"; readonly text: string }
  | { readonly how: "regex"; readonly regex: RegExp };

export const FIELDS = [
  "op",
  "name",
  "kind",
  "in",
  "class",
  "file",
  "pass",
  "rule",
  "kernel",
  "id",
  "dtype",
  "is",
  "group",
  "input",
  "output",
  "frame",
] as const;
export type Field = (typeof FIELDS)[number];

export type Term = { readonly not: boolean } & (
  | { readonly type: "text"; readonly pattern: Pattern }
  | { readonly type: "field"; readonly field: Field; readonly pattern: Pattern }
  | { readonly type: "shape"; readonly pattern: Pattern }
  | { readonly type: "place"; readonly file: string; readonly from: number; readonly to: number }
  | { readonly type: "attr"; readonly key: string; readonly pattern: Pattern }
  | { readonly type: "measure"; readonly name: string; readonly compare: Compare; readonly value: number }
);
export type Compare = ">" | ">=" | "<" | "<=" | "=";

/** Alternatives of terms that must all hold. */
export type Query = readonly (readonly Term[])[];

export class QueryError extends Error {}

const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-9,
  us: 1e-6,
  µs: 1e-6,
  ms: 1e-3,
  s: 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
  "%": 0.01,
};

/** Cuts at spaces outside of quotes, slashes and brackets: `op:"a b" /c d/` is two pieces. */
function pieces(text: string): string[] {
  const out: string[] = [];
  let at = 0;
  let start = -1;
  let close = "";
  let depth = 0;
  for (; at < text.length; at++) {
    const c = text[at];
    if (close) {
      if (c === "\\" && close === "/") at++;
      else if (c === close) close = "";
      continue;
    }
    if (depth === 0 && /\s/.test(c)) {
      if (start >= 0) out.push(text.slice(start, at));
      start = -1;
      continue;
    }
    // A slash opens a regex at the start of a piece or after a colon; elsewhere it is part of a path.
    const opens = start < 0 || text[at - 1] === ":" || (text[at - 1] === "-" && at - 1 === start);
    if (start < 0) start = at;
    if (c === '"') close = '"';
    else if (c === "/" && opens && text.indexOf("/", at + 1) > at && regexEnd(text, at) >= 0) close = "/";
    else if (c === "[") depth++;
    else if (c === "]") depth = Math.max(0, depth - 1);
  }
  if (start >= 0) out.push(text.slice(start));
  return out;
}

/** Where the regex that opens at `from` ends; -1 when that slash starts a path ("/encoder/layer"). */
function regexEnd(text: string, from: number): number {
  for (let i = from + 1; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "/") {
      const rest = /^[a-z]*(?=\s|$)/.exec(text.slice(i + 1));
      if (rest && i > from + 1) return i;
    }
  }
  return -1;
}

/** Puts "time > 1 ms" back together: a comparison may have spaces in it. */
function together(parts: readonly string[]): string[] {
  const out: string[] = [];
  for (const part of parts) {
    const before = out.at(-1) ?? "";
    const plain = before !== "" && !/^["/|]/.test(before);
    const goesOn =
      /^[<>]=?/.test(part) ||
      (/[<>]=?$/.test(before) && /^[-+.\d]/.test(part)) ||
      (/[<>]=?[-+]?[\d.]+(e[-+]?\d+)?$/i.test(before) && UNITS[part.toLowerCase()] !== undefined);
    if (plain && goesOn) out[out.length - 1] += part;
    else out.push(part);
  }
  return out;
}

export function parseQuery(text: string): Query {
  const alternatives: Term[][] = [[]];
  for (const piece of together(pieces(text.trim()))) {
    if (piece === "|" || piece === "OR") {
      if (alternatives[alternatives.length - 1].length > 0) alternatives.push([]);
      continue;
    }
    alternatives[alternatives.length - 1].push(parseTerm(piece));
  }
  return alternatives.filter((a) => a.length > 0);
}

function parseTerm(piece: string): Term {
  const not = piece.length > 1 && piece.startsWith("-");
  const p = not ? piece.slice(1) : piece;
  const measured = /^("[^"]+"|[A-Za-z][\w .-]*?)(>=|<=|>|<)([-+]?[\d.]+(?:e[-+]?\d+)?)([a-zµ%]*)$/i.exec(p);
  if (measured) {
    const unit = measured[4].toLowerCase();
    if (unit && UNITS[unit] === undefined)
      throw new QueryError(`The unit "${measured[4]}" is not known; use ns, us, ms, s, B, kB, MB, GB, k, M or G.`);
    return {
      not,
      type: "measure",
      name: unquote(measured[1]).toLowerCase(),
      compare: measured[2] as Compare,
      value: Number(measured[3]) * (unit ? UNITS[unit] : 1),
    };
  }
  if (p.startsWith("/") && regexEnd(p, 0) >= 0) return { not, type: "text", pattern: patternOf(p) };
  if (p.startsWith('"')) return { not, type: "text", pattern: patternOf(p) };
  const place = /^([^\s:"]*\.\w{1,6}):(\d+)(?:-(\d+))?$/.exec(p);
  if (place)
    return {
      not,
      type: "place",
      file: place[1].toLowerCase(),
      from: Number(place[2]),
      to: Number(place[3] ?? place[2]),
    };
  const colon = p.indexOf(":");
  if (colon > 0 && colon < p.length - 1 && p[colon + 1] !== ":" && p[colon - 1] !== ":") {
    const key = p.slice(0, colon);
    const value = p.slice(colon + 1);
    const low = key.toLowerCase();
    if (low === "shape" || low === "type") return { not, type: "shape", pattern: shapePattern(value) };
    if (low === "file") {
      const line = /^(.*?):(\d+)(?:-(\d+))?$/.exec(value);
      if (line)
        return {
          not,
          type: "place",
          file: line[1].toLowerCase(),
          from: Number(line[2]),
          to: Number(line[3] ?? line[2]),
        };
    }
    if (low === "line" && /^\d+(-\d+)?$/.test(value)) {
      const [from, to] = value.split("-").map(Number);
      return { not, type: "place", file: "", from, to: to ?? from };
    }
    if (low === "attr") {
      const eq = value.indexOf("=");
      return eq > 0
        ? { not, type: "attr", key: value.slice(0, eq).toLowerCase(), pattern: patternOf(value.slice(eq + 1)) }
        : { not, type: "attr", key: "", pattern: patternOf(value) };
    }
    if ((FIELDS as readonly string[]).includes(low))
      return { not, type: "field", field: low as Field, pattern: patternOf(value) };
    if (/^[A-Za-z_][\w.-]*$/.test(key)) return { not, type: "attr", key: low, pattern: patternOf(value) };
  }
  return { not, type: "text", pattern: patternOf(p) };
}

function unquote(text: string): string {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

export function patternOf(text: string): Pattern {
  if (text.startsWith("/")) {
    const end = regexEnd(text, 0);
    if (end > 0) {
      const flags = text.slice(end + 1).replace(/[^imsu]/g, "");
      return { how: "regex", regex: makeRegex(text.slice(1, end), flags.includes("i") ? flags : `${flags}i`) };
    }
  }
  if (text.startsWith("=")) return { how: "whole", text: unquote(text.slice(1)).toLowerCase() };
  if (text.length > 1 && text.startsWith('"') && text.endsWith('"'))
    return { how: "whole", text: text.slice(1, -1).toLowerCase() };
  return { how: "part", text: text.replace(/^"/, "").toLowerCase() };
}

export function makeRegex(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, flags);
  } catch (e) {
    throw new QueryError(e instanceof Error ? e.message : String(e));
  }
}

/** "1,128,*" finds any shape that holds 1, 128 and one more in this order; "f32[1,128]" the whole type. */
function shapePattern(value: string): Pattern {
  if (value.startsWith("/")) return patternOf(value);
  const plain = unquote(value)
    .toLowerCase()
    .replace(/\s+/g, "")
    .replace(/^\((.*)\)$/, "[$1]");
  const body = plain.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*/g, "[^,\\]]+");
  const left = /^[\d*]/.test(plain) ? "(?<![\\w*])" : "";
  const right = /[\d*]$/.test(plain) ? "(?!\\w)" : "";
  return { how: "regex", regex: makeRegex(left + body + right, "i") };
}

export function matches(pattern: Pattern, text: string): boolean {
  if (pattern.how === "regex") return pattern.regex.test(text);
  const low = text.toLowerCase();
  return pattern.how === "part" ? low.includes(pattern.text) : low === pattern.text;
}

/** What the palette tells a person who does not know the language. */
export const HELP: readonly (readonly [string, string])[] = [
  ["gelu", "name, op or tensor holds this text"],
  ["/conv\\d+/", "regular expression"],
  ["op:matmul", "op; also name: kind: class: in: pass: kernel: dtype: id:"],
  ["axis:-1", "attribute with this value"],
  ["shape:128,*,768", "shape; * is any size"],
  ["model.py:41", "made by this line"],
  ["time>10us", "also error, bytes, flops, params and named data"],
  ["is:added", "also changed, removed, fused, input, output, constant, opaque"],
  ["-op:add | kind:norm", "not; or"],
];
