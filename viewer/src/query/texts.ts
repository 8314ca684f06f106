/** How texts are searched: each distinct string is tested once, and plain words by one scan over all bytes. */

import type { Strings } from "../model/strings";
import { matches, type Pattern } from "./language";

/** Longer strings are searched in their first part only: nobody reads further, and a regex must end. */
const LONGEST = 20000;

export class Texts {
  private all: { readonly low: string; readonly starts: Int32Array } | null | undefined;
  private readonly known = new Map<string, Uint8Array>();

  constructor(readonly strings: Strings) {}

  /** A test of string indices: words by one scan, patterns string by string as they are asked for. Index 0, "", never fits. */
  matching(pattern: Pattern): (text: number) => boolean {
    const key =
      pattern.how === "regex" ? `r${pattern.regex.flags}/${pattern.regex.source}` : `${pattern.how}/${pattern.text}`;
    let found = this.known.get(key);
    if (!found) {
      found = pattern.how === "part" ? this.scan(pattern.text) : new Uint8Array(this.strings.count);
      if (this.known.size > 32) this.known.clear();
      this.known.set(key, found);
    }
    const flags = found;
    // Names that the viewer gives (steps, blocks) stand behind those of the file: a few, tested as they come.
    const given = (text: number): boolean => matches(pattern, this.strings.at(text).toLowerCase());
    if (pattern.how === "part") return (text) => (text < flags.length ? flags[text] === 1 : given(text));
    // 0 not asked yet, 1 fits, 2 does not.
    return (text) => {
      if (text >= flags.length) return given(text);
      if (text <= 0) return false;
      if (flags[text] === 0) flags[text] = matches(pattern, this.lower(text)) ? 1 : 2;
      return flags[text] === 1;
    };
  }

  /** Patterns never tell case apart, so the lower case text serves all of them. */
  private lower(text: number): string {
    const all = this.joined();
    return all
      ? all.low.slice(all.starts[text], Math.min(all.starts[text + 1], all.starts[text] + LONGEST))
      : this.strings.head(text, LONGEST);
  }

  private scan(text: string): Uint8Array {
    const out = new Uint8Array(this.strings.count);
    if (!text) return out;
    const all = this.joined();
    if (!all) {
      for (let i = 1; i < out.length; i++) out[i] = this.strings.head(i, LONGEST).toLowerCase().includes(text) ? 1 : 0;
      return out;
    }
    const { low, starts } = all;
    let row = 1;
    for (let at = low.indexOf(text); at >= 0; at = low.indexOf(text, at)) {
      row = rowAt(starts, at, row);
      if (at + text.length <= starts[row + 1]) out[row] = 1;
      // On to the next string; a hit across a border moves on by one only.
      at = out[row] ? starts[row + 1] : at + 1;
    }
    return out;
  }

  /** All strings in one, lower case; null when bytes and characters do not line up. */
  private joined(): { low: string; starts: Int32Array } | null {
    if (this.all !== undefined) return this.all;
    const { bytes, offsets } = this.strings.blob();
    const low = bytes.length < 200e6 ? new TextDecoder().decode(bytes).toLowerCase() : "";
    this.all = low.length === bytes.length ? { low, starts: offsets } : null;
    return this.all;
  }
}

/** The row that holds place `at`; rows only grow while a scan goes on. */
function rowAt(starts: Int32Array, at: number, from: number): number {
  let a = from;
  let step = 1;
  while (a + step < starts.length - 1 && starts[a + step] <= at) {
    a += step;
    step *= 2;
  }
  let b = Math.min(a + step, starts.length - 1);
  while (b - a > 1) {
    const m = (a + b) >> 1;
    if (starts[m] <= at) a = m;
    else b = m;
  }
  return a;
}
