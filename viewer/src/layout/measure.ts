/** How wide a text is, without a screen: a table of advances that the page measures once. */

/** Advances at 1 px font size for codes 32..126; the page replaces them by those of its own font. */
export interface FontTable {
  readonly sans: readonly number[];
  readonly bold: readonly number[];
  /** One advance for all: monospace. */
  readonly mono: number;
}

// A neutral grotesque: narrow (i l . ,), normal, wide (m w M W); used by tests and before measuring.
const NARROW = new Set("iljtfr.,:;'|!()[]{} I".split(""));
const WIDE = new Set("mwMW@%".split(""));

export function defaultFont(): FontTable {
  const sans: number[] = [];
  for (let c = 32; c < 127; c++) {
    const ch = String.fromCharCode(c);
    sans.push(NARROW.has(ch) ? 0.3 : WIDE.has(ch) ? 0.86 : ch >= "A" && ch <= "Z" ? 0.66 : 0.54);
  }
  return { sans, bold: sans.map((v) => v * 1.06), mono: 0.602 };
}

export type Face = "sans" | "bold" | "mono";

export class Measure {
  constructor(private font: FontTable = defaultFont()) {}

  width(text: string, size: number, face: Face = "sans"): number {
    let w = 0;
    const table = face === "mono" ? null : face === "bold" ? this.font.bold : this.font.sans;
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i);
      if (c >= 32 && c < 127) w += table ? table[c - 32] : this.font.mono;
      else if (c === 0x2009) w += 0.2;
      else if (c < 32 || (c >= 0x300 && c < 0x370) || (c >= 0xdc00 && c < 0xe000)) continue;
      else w += c >= 0x1100 ? 1 : 0.6; // wide scripts and emoji take a whole square
    }
    return w * size;
  }
}
