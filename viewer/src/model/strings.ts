/** When shared strings are decoded: one at a time, on first use; a million names stay bytes. */

import type { Table } from "./table";

export class Strings {
  readonly count: number;
  private readonly offsets: Int32Array;
  private readonly bytes: Uint8Array;
  private readonly cache = new Map<number, string>();
  private readonly own: string[] = [];
  private readonly decoder = new TextDecoder();

  constructor(table: Table | null) {
    if (table) {
      const t = table.text("text");
      this.offsets = t.offsets;
      this.bytes = t.bytes;
      this.count = table.rows;
    } else {
      this.offsets = new Int32Array(2);
      this.bytes = new Uint8Array(0);
      this.count = 1;
    }
  }

  /** The number of a text that is not in the file: names that the viewer gives. */
  intern(text: string): number {
    const known = this.own.indexOf(text);
    return this.count + (known >= 0 ? known : this.own.push(text) - 1);
  }

  at(i: number): string {
    if (i >= this.count) return this.own[i - this.count] ?? "";
    if (i <= 0) return "";
    const known = this.cache.get(i);
    if (known !== undefined) return known;
    const s = this.decoder.decode(this.bytes.subarray(this.offsets[i], this.offsets[i + 1]));
    // Short strings repeat; long ones (a 1-MB name) are shown once and would only hold memory.
    if (s.length <= 200) this.cache.set(i, s);
    return s;
  }

  /** At most `limit` characters, for labels: a 1-MB name costs what it shows. */
  head(i: number, limit = 120): string {
    if (i <= 0 || i >= this.count) return this.at(i).slice(0, limit);
    const size = this.offsets[i + 1] - this.offsets[i];
    if (size <= limit) return this.at(i);
    const cut = this.decoder.decode(this.bytes.subarray(this.offsets[i], this.offsets[i] + limit * 4));
    return cut.length > limit ? cut.slice(0, limit) : cut;
  }

  /** UTF-8 bytes of a string, for scans that must not decode (search over a million rows). */
  raw(i: number): Uint8Array {
    return i <= 0 || i >= this.count
      ? this.bytes.subarray(0, 0)
      : this.bytes.subarray(this.offsets[i], this.offsets[i + 1]);
  }

  /** Bytes and offsets of all strings, for one scan over everything. */
  blob(): { readonly bytes: Uint8Array; readonly offsets: Int32Array } {
    return { bytes: this.bytes, offsets: this.offsets };
  }
}
