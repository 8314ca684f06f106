/** Which colour a value has: one hue from light to dark for amounts, a set told apart for texts. */

import { blend, blue, green, parseColor, red, rgb, type Rgba } from "../base/color";
import type { ColorData } from "../query/api";

export interface Ramp {
  readonly at: (value: number) => Rgba;
  /** Values to write under the legend, from low to high. */
  readonly ticks: readonly number[];
  readonly kind: "linear" | "log";
}

const STOPS = {
  light: ["#fdf3e4", "#f6c98a", "#e08a3c", "#a8480f", "#6b2705"],
  dark: ["#2a241e", "#5c3a1e", "#9a531c", "#db7f33", "#ffc78a"],
} as const;

function along(stops: readonly Rgba[], t: number): Rgba {
  const x = Math.min(1, Math.max(0, t)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(x));
  return blend(stops[i], stops[i + 1], x - i);
}

/** Amounts over three orders of magnitude, most of them small, are told apart by ratio, others by difference. */
export function rampOf(c: ColorData, dark: boolean): Ramp {
  const given = c.scale;
  if (given && given.thresholds.length > 0) {
    const steps = given.thresholds.map(([v, color]) => [v, parseColor(color) ?? 0] as const);
    return {
      at: (v) => (steps.find(([limit]) => v <= limit) ?? [0, 0])[1],
      ticks: steps.map(([v]) => v),
      kind: "linear",
    };
  }
  const stops =
    given && given.gradient.length > 1
      ? given.gradient.map(([, color]) => parseColor(color) ?? 0)
      : STOPS[dark ? "dark" : "light"].map((s) => rgb(s));
  // The scale is that of the boxes drawn now: of nodes alone, every folded group would be the darkest.
  const { least: low, high, low: positive } = c;
  if (low === 0 && high === 0) return { at: () => 0, ticks: [], kind: "linear" };
  // A few that outweigh the rest by far would leave all others one colour.
  if (low >= 0 && high > 0 && high / positive > 1000 && c.median < high / 20) {
    const a = Math.log10(Math.max(positive, high * 1e-7));
    const b = Math.log10(high);
    return {
      at: (v) => (v > 0 ? along(stops, (Math.log10(v) - a) / (b - a || 1)) : along(stops, 0)),
      ticks: [10 ** a, 10 ** ((a + b) / 2), high],
      kind: "log",
    };
  }
  const from = Math.min(low, c.additive ? 0 : low);
  return {
    at: (v) => along(stops, (v - from) / (high - from || 1)),
    ticks: [from, (from + high) / 2, high],
    kind: "linear",
  };
}

/** Told apart by people with any common colour blindness. */
const SET = [
  "#4c8fc9",
  "#e0a03c",
  "#4ea57e",
  "#c8735f",
  "#8f78c4",
  "#8a9a2b",
  "#cc7aa5",
  "#5ab0b8",
  "#b0885a",
  "#8b8f96",
];

export function categories(labels: readonly (readonly [number, string])[]): {
  color: Map<string, Rgba>;
  count: Map<string, number>;
} {
  const count = new Map<string, number>();
  for (const [, t] of labels) count.set(t, (count.get(t) ?? 0) + 1);
  const color = new Map<string, Rgba>();
  [...count].sort((a, b) => b[1] - a[1]).forEach(([t], i) => color.set(t, rgb(SET[Math.min(i, SET.length - 1)])));
  return { color, count };
}

/** Black or white, whichever reads on a colour. */
export function inkOn(c: Rgba): Rgba {
  const l = (0.299 * red(c) + 0.587 * green(c) + 0.114 * blue(c)) / 255;
  return l > 0.55 ? rgb("#1d1f23") : rgb("#ffffff");
}
