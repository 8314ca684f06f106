/** How colours are held: one 32-bit number, 0xAABBGGRR, ready for a vertex buffer. */

export type Rgba = number;

export function rgb(hex: string, alpha = 1): Rgba {
  const h = hex.startsWith("#") ? hex.slice(1) : hex;
  const full = h.length === 3 ? h.replace(/./g, "$&$&") : h;
  const v = Number.parseInt(full.slice(0, 6), 16);
  return pack((v >> 16) & 255, (v >> 8) & 255, v & 255, Math.round(alpha * 255));
}

export function pack(r: number, g: number, b: number, a: number): Rgba {
  return ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export const red = (c: Rgba): number => c & 255;
export const green = (c: Rgba): number => (c >>> 8) & 255;
export const blue = (c: Rgba): number => (c >>> 16) & 255;
export const alphaOf = (c: Rgba): number => c >>> 24;

export function fade(c: Rgba, by: number): Rgba {
  const a = Math.round(alphaOf(c) * Math.min(1, Math.max(0, by)));
  return ((c & 0xffffff) | (a << 24)) >>> 0;
}

/** a · (1 - t) + b · t, channel by channel. */
export function blend(a: Rgba, b: Rgba, t: number): Rgba {
  const m = (p: number, q: number): number => Math.round(p + (q - p) * t);
  return pack(m(red(a), red(b)), m(green(a), green(b)), m(blue(a), blue(b)), m(alphaOf(a), alphaOf(b)));
}

export function css(c: Rgba): string {
  const a = alphaOf(c);
  const hex = (v: number): string => v.toString(16).padStart(2, "0");
  return a === 255
    ? `#${hex(red(c))}${hex(green(c))}${hex(blue(c))}`
    : `rgba(${red(c)},${green(c)},${blue(c)},${(a / 255).toFixed(3)})`;
}

/** A colour as written in a file ("#fff", "#aabbcc", "red"); null when it is none of the plain forms. */
export function parseColor(text: string): Rgba | null {
  const t = text.trim().toLowerCase();
  if (/^#([0-9a-f]{3}|[0-9a-f]{6})$/.test(t)) return rgb(t);
  if (/^#[0-9a-f]{8}$/.test(t)) return rgb(t.slice(0, 7), Number.parseInt(t.slice(7), 16) / 255);
  const m = /^rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)(?:[\s,/]+([\d.]+%?))?\s*\)$/.exec(t);
  if (m) {
    const a = m[4] === undefined ? 1 : m[4].endsWith("%") ? Number(m[4].slice(0, -1)) / 100 : Number(m[4]);
    return pack(Number(m[1]) & 255, Number(m[2]) & 255, Number(m[3]) & 255, Math.round(Math.min(1, a) * 255));
  }
  const named = NAMED[t];
  return named ? rgb(named) : null;
}

const NAMED: Readonly<Record<string, string>> = {
  black: "#000000",
  white: "#ffffff",
  red: "#ff0000",
  green: "#008000",
  blue: "#0000ff",
  yellow: "#ffff00",
  orange: "#ffa500",
  purple: "#800080",
  gray: "#808080",
  grey: "#808080",
  pink: "#ffc0cb",
  brown: "#a52a2a",
  cyan: "#00ffff",
  magenta: "#ff00ff",
  lime: "#00ff00",
  navy: "#000080",
  teal: "#008080",
  olive: "#808000",
  maroon: "#800000",
  silver: "#c0c0c0",
  gold: "#ffd700",
  lightgreen: "#90ee90",
  lightblue: "#add8e6",
  lightgray: "#d3d3d3",
  lightgrey: "#d3d3d3",
  darkgreen: "#006400",
  darkblue: "#00008b",
  darkred: "#8b0000",
  salmon: "#fa8072",
  coral: "#ff7f50",
  tomato: "#ff6347",
  violet: "#ee82ee",
};
