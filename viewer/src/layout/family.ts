/** The op family that a box is coloured by, from the recording's `kind`. */

export const FAMILIES = [
  "other",
  "matmul",
  "conv",
  "norm",
  "elementwise",
  "shape",
  "reduction",
  "move",
  "quant",
  "opaque",
  "source",
  "mixed",
] as const;
export type Family = (typeof FAMILIES)[number];

const NUMBER: ReadonlyMap<string, number> = new Map(FAMILIES.map((f, i) => [f as string, i]));

export const familyOf = (kind: string): number => NUMBER.get(kind) ?? 0;

/** How much a node of each family says about what a group does: the heavy families name it. */
const WEIGHT: Readonly<Record<Family, number>> = {
  other: 1,
  matmul: 8,
  conv: 8,
  norm: 4,
  elementwise: 1,
  shape: 0.2,
  reduction: 3,
  move: 2,
  quant: 3,
  opaque: 1,
  source: 0,
  mixed: 0,
};
export const FAMILY_WEIGHT: readonly number[] = FAMILIES.map((f) => WEIGHT[f]);
