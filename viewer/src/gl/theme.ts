/** Every colour on the canvas, for light and dark; greys carry structure, one accent selects. */

import { blend, rgb, type Rgba } from "../base/color";
import { FAMILIES, type Family } from "../layout/family";

export interface Theme {
  readonly dark: boolean;
  readonly paper: Rgba;
  readonly ink: Rgba;
  /** Second lines, figures. */
  readonly soft: Rgba;
  readonly edge: Rgba;
  readonly accent: Rgba;
  readonly box: Rgba;
  readonly border: Rgba;
  readonly folded: Rgba;
  readonly foldedBorder: Rgba;
  readonly added: Rgba;
  readonly removed: Rgba;
  readonly changed: Rgba;
  readonly error: Rgba;
  /** Sheets of unfolded groups by depth, one step darker each. */
  readonly sheets: readonly Rgba[];
  readonly sheetBorders: readonly Rgba[];
  readonly familyEdge: readonly Rgba[];
  readonly familyFill: readonly Rgba[];
}

// Told apart by people with any common colour blindness: hue and lightness both differ.
const FAMILY: Readonly<Record<Family, string>> = {
  other: "#8b8f96",
  matmul: "#2f6db3",
  conv: "#2f6db3",
  norm: "#3f9a6b",
  elementwise: "#c59a46",
  shape: "#9b9fa6",
  reduction: "#8562bd",
  move: "#2f9aa3",
  quant: "#cc6489",
  opaque: "#6f737a",
  source: "#aeb1b7",
  mixed: "#8b8f96",
};

function make(dark: boolean): Theme {
  const paper = rgb(dark ? "#15171a" : "#fafaf8");
  const ink = rgb(dark ? "#e6e6e3" : "#1d1f23");
  const box = rgb(dark ? "#22252a" : "#ffffff");
  const steps = [0.03, 0.058, 0.084, 0.108, 0.13, 0.15];
  const family = FAMILIES.map((f) => rgb(FAMILY[f]));
  return {
    dark,
    paper,
    ink,
    box,
    soft: blend(ink, paper, dark ? 0.34 : 0.38),
    edge: blend(paper, ink, dark ? 0.46 : 0.44),
    accent: rgb(dark ? "#5b93f5" : "#2f6fde"),
    border: blend(paper, ink, dark ? 0.24 : 0.2),
    folded: dark ? blend(paper, ink, 0.13) : rgb("#ffffff"),
    foldedBorder: blend(paper, ink, dark ? 0.36 : 0.34),
    added: rgb(dark ? "#4fb477" : "#2e8b57"),
    removed: rgb(dark ? "#c8735f" : "#a4503c"),
    changed: rgb(dark ? "#d9a441" : "#b9801a"),
    error: rgb(dark ? "#f0605a" : "#c62f2f"),
    sheets: steps.map((s) => blend(paper, ink, dark ? s * 0.95 : s)),
    sheetBorders: steps.map((s) => blend(paper, ink, s + (dark ? 0.07 : 0.075))),
    familyEdge: family.map((c) => (dark ? blend(c, ink, 0.12) : c)),
    familyFill: family.map((c, i) => blend(box, c, FAMILIES[i] === "source" ? 0 : dark ? 0.16 : 0.09)),
  };
}

export const LIGHT = make(false);
export const DARK = make(true);
