/** Decides the op family that a box is coloured by, from the recording's `kind`. */

export const FAMILIES = [
  "other", "matmul", "conv", "norm", "elementwise", "shape", "reduction", "move", "quant", "opaque", "source", "mixed",
] as const;
export type Family = (typeof FAMILIES)[number];

const NUMBER: ReadonlyMap<string, number> = new Map(FAMILIES.map((f, i) => [f as string, i]));

export const familyOf = (kind: string): number => NUMBER.get(kind) ?? 0;
