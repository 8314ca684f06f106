/** The sizes of things in a drawing, in pixels at scale 1. */

import type { Measure } from "./measure";

export const TITLE_PX = 12;
export const SUB_PX = 11;
export const RADIUS = 6;

/** Below this scale a box of 36 px is lower than a line of 11 px with room around it: a drawing cannot be read. */
export const READABLE = 0.62;
/** How much of a drawing the window shows along the flow at that scale. */
export const windowHeight = (window: {
  readonly width: number;
  readonly height: number;
  readonly across: boolean;
}): number => (window.across ? window.width : window.height) / READABLE;
/** A whole drawing is worth smaller boxes than one reads with ease: at this scale a name still stands in each. */
export const NAMES = 0.5;

export const HEADER = 26;
export const PAD = 14;

export const LEAF_H = 36;
export const LEAF_H_ONE = 26;
/** The smallest scale at which shapes are written beside edges; letters do not shrink, so there they need most room. */
export const SHAPES_FROM = 0.8;
/** Straight piece of an edge under its source, beside which its shape is written. */
export const STEM = 18;
export const GROUP_H = 38;
export const PILL_H = 18;
export const PILL_GAP = 4;
export const PILL_ROOM = 10;
/** A named port: the tensor's name over its shape. */
export const TAG_H = 30;
export const TAG_RISE = 34;

const clamp = (v: number, a: number, b: number): number => Math.min(b, Math.max(a, v));
/** Widths step by 4 so that twins whose names differ by a digit have the same drawing. */
const step = (v: number): number => Math.ceil(v / 4) * 4;

export interface Size {
  readonly w: number;
  readonly h: number;
}

/** Letters stay at 11 px when boxes shrink: room for a title of 12 px and, at scale 0.7, for a second line of 11 px. */
const TITLE_ROOM = 11 / (READABLE * TITLE_PX);
const SUB_ROOM = 11 / (0.7 * SUB_PX);
const HEADER_ROOM = 11 / (0.7 * TITLE_PX);

/** A name of one word, up to this width, is whole as long as names are drawn at all. */
const WORD = 104;
const WORD_ROOM = 11 / (NAMES * TITLE_PX);

/** Room for a title in a box. */
function titleRoom(m: Measure, title: string): number {
  const w = m.width(title, TITLE_PX, "bold");
  return Math.max(w * TITLE_ROOM, Math.min(w * WORD_ROOM, WORD));
}

export function leafSize(m: Measure, title: string, sub: string): Size {
  const w = Math.max(titleRoom(m, title), m.width(sub, SUB_PX, "mono") * SUB_ROOM) + 22;
  return { w: step(clamp(w, 60, 240)), h: sub ? LEAF_H : LEAF_H_ONE };
}

export function foldedSize(m: Measure, title: string, sub: string): Size {
  const w = Math.max(titleRoom(m, title), m.width(sub, SUB_PX) * SUB_ROOM) + 22;
  return { w: step(clamp(w, 96, 264)), h: GROUP_H };
}

export function headerWidth(m: Measure, title: string, sub: string): number {
  return step(Math.min(m.width(title, TITLE_PX, "bold") * HEADER_ROOM + m.width(sub, SUB_PX) * SUB_ROOM + 56, 460));
}

export function pillSize(m: Measure, text: string): Size {
  return { w: step(clamp(m.width(text, SUB_PX) * SUB_ROOM + 14, 36, 128)), h: PILL_H };
}

export function tagSize(m: Measure, name: string, type: string): Size {
  const { w } = pillSize(m, name);
  return type
    ? { w: Math.max(w, step(clamp(m.width(type, SUB_PX, "mono") * SUB_ROOM + 16, 28, 168))), h: TAG_H }
    : { w, h: PILL_H };
}
