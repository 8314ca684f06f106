/** What one file may cost a page: the limits of src/glasshouse/record/budget.py, spent before anything is allocated. */

import { GlassError } from "../base/errors";

interface Limit {
  readonly least: number;
  /** What each byte of the file adds: an honest large file never meets a limit. */
  readonly perByte: number;
  readonly words: string;
}

const LIMITS = {
  decoded_bytes: { least: 512 * 2 ** 20, perByte: 64, words: "bytes when decoded" },
  rows: { least: 2_000_000, perByte: 1, words: "rows" },
  graphs: { least: 20_000, perByte: 1 / 250, words: "graphs and stages" },
  // Readers stop at 1,000 unless told otherwise; whoever told them can look at the file.
  depth: { least: 10_000, perByte: 0, words: "levels of nesting" },
} satisfies Record<string, Limit>;
const MOST_OBJECTS = 30_000_000;

/** A list or an object of JSON takes about this much. */
const OBJECT_BYTES = 64;

export type LimitName = keyof typeof LIMITS | "objects";

export class Budget {
  private readonly limit: Record<LimitName, number>;
  private readonly left: Record<LimitName, number>;

  constructor(size: number) {
    const of = (l: Limit): number => Math.max(l.least, l.perByte * size);
    const { decoded_bytes, rows, graphs, depth } = LIMITS;
    // A small file has few objects: JSON packs twentyfold and has a bracket in every ten bytes.
    const objects = Math.min(MOST_OBJECTS, 1e6 + 16 * size);
    this.limit = { decoded_bytes: of(decoded_bytes), rows: of(rows), graphs: of(graphs), depth: of(depth), objects };
    this.left = { ...this.limit };
  }

  /** Take from a limit; NaN and negative amounts are refused like too large ones. */
  spend(what: LimitName, amount: number, where: string): void {
    const left = this.left[what] - amount;
    if (!(amount >= 0 && left >= 0)) throw this.exceeded(what, this.limit[what] - left, where);
    this.left[what] = left;
  }

  /** Hold a figure against a limit without using it up: a depth. */
  within(what: LimitName, amount: number, where: string): void {
    if (!(amount <= this.limit[what])) throw this.exceeded(what, amount, where);
  }

  /** JSON of the file; what it becomes in memory is told by its brackets and commas, before it is parsed. */
  json(data: Uint8Array, where: string): unknown {
    let containers = 0;
    let commas = 0;
    for (const byte of data) {
      if (byte === 0x5b || byte === 0x7b) containers++;
      else if (byte === 0x2c) commas++;
    }
    this.spend("objects", containers, where);
    this.spend("decoded_bytes", OBJECT_BYTES * (containers + commas / 2) + data.length, where);
    return JSON.parse(new TextDecoder().decode(data)) as unknown;
  }

  private exceeded(what: LimitName, amount: number, where: string): GlassError {
    const words = what === "objects" ? "lists and objects" : LIMITS[what].words;
    const most = Math.floor(this.limit[what]).toLocaleString("en");
    const asked = Number.isFinite(amount) ? amount.toLocaleString("en") : String(amount);
    return new GlassError(
      `asks for ${asked} ${words}; a file of this size may have ${most}`,
      where,
      `If you trust the file, the terminal reads it: GLASSHOUSE_LIMITS=${what}=0 glasshouse explain FILE`,
    );
  }
}

/** Each of these is nested in its parent, or in none (-1): refuses what lies in itself, nowhere, or too deep. */
export function checkNesting(parents: ArrayLike<number>, budget: Budget, where: string): void {
  const depth = new Int32Array(parents.length).fill(-1);
  const above: number[] = [];
  const inside = -2; // on the way up from the one that is looked at
  for (let i = 0; i < parents.length; i++) {
    let at = i;
    while (at >= 0 && depth[at] === -1) {
      depth[at] = inside;
      above.push(at);
      at = parents[at];
      if (!(Number.isInteger(at) && at >= -1 && at < parents.length) || (at >= 0 && depth[at] === inside)) {
        throw new GlassError(
          `entry ${above[above.length - 1]} is nested in ${at}`,
          where,
          "The file is damaged; write it again.",
        );
      }
    }
    for (let inner = above.pop(); inner !== undefined; inner = above.pop()) {
      depth[inner] = parents[inner] < 0 ? 0 : depth[parents[inner]] + 1;
      budget.within("depth", depth[inner], where);
    }
  }
}
