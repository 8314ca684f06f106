/** How a table's bytes become typed columns; each column is decoded when first asked for. */

import { GlassError } from "../base/errors";
import type { Csr } from "../base/csr";
import type { Budget } from "./budget";

type Part = readonly [offset: number, bytes: number, kind: string];
interface ColumnHead {
  readonly name: string;
  readonly type: string;
  readonly enc?: string | null;
  readonly parts: readonly Part[];
}

export interface TextColumn {
  readonly offsets: Int32Array;
  readonly bytes: Uint8Array;
}

const WIDTH: Readonly<Record<string, number>> = { i8: 1, u8: 1, i16: 2, i32: 4, f32: 4, f64: 8 };
const EMPTY_INTS = new Int32Array(0);

export class Table {
  readonly rows: number;
  private readonly base: number;
  private readonly heads = new Map<string, ColumnHead>();
  private readonly done = new Map<string, Int32Array | Float64Array | Csr | TextColumn>();

  constructor(
    private readonly where: string,
    private readonly data: Uint8Array,
    private readonly budget: Budget,
  ) {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    const size = data.length >= 4 ? view.getUint32(0, true) : -1;
    if (size < 0 || 4 + size > data.length) throw this.bad("the table's header is cut off");
    let head: { rows?: unknown; columns?: unknown } | null;
    try {
      head = budget.json(data.subarray(4, 4 + size), where) as typeof head;
    } catch (e) {
      if (e instanceof GlassError) throw e;
      throw this.bad("the table's header is not JSON");
    }
    if (!Number.isSafeInteger(head?.rows) || !Array.isArray(head?.columns))
      throw this.bad("the table's header lacks rows or columns");
    this.rows = head.rows as number;
    budget.spend("rows", this.rows, where);
    this.base = Math.ceil((4 + size) / 8) * 8;
    for (const c of head.columns as (ColumnHead | null)[]) {
      if (typeof c?.name !== "string" || !Array.isArray(c.parts)) throw this.bad("a column has no name or no parts");
      this.heads.set(c.name, c);
    }
  }

  has(column: string): boolean {
    return this.heads.has(column);
  }

  /** An `int` or `str` column (string indices); `absent` fills a column that the file does not have. */
  ints(name: string, absent = 0): Int32Array {
    const known = this.done.get(name);
    if (known instanceof Int32Array) return known;
    const head = this.heads.get(name);
    let out: Int32Array;
    this.allocate(name, 4 * this.rows);
    if (!head) {
      out = new Int32Array(this.rows);
      if (absent !== 0) out.fill(absent);
    } else {
      out = this.intPart(name, head.parts[0], this.rows);
      if (head.enc === "delta") {
        for (let i = 1; i < out.length; i++) out[i] += out[i - 1];
      }
    }
    this.done.set(name, out);
    return out;
  }

  floats(name: string, absent = 0): Float64Array {
    const known = this.done.get(name);
    if (known instanceof Float64Array) return known;
    const head = this.heads.get(name);
    this.allocate(name, 8 * this.rows);
    const out = head
      ? Float64Array.from(this.part(name, head.parts[0], this.rows))
      : new Float64Array(this.rows).fill(absent);
    this.done.set(name, out);
    return out;
  }

  list(name: string): Csr {
    const known = this.done.get(name) as Csr | undefined;
    if (known) return known;
    const head = this.heads.get(name);
    let out: Csr;
    this.allocate(name, 4 * this.rows);
    if (!head) {
      out = { offsets: new Int32Array(this.rows + 1), values: EMPTY_INTS };
    } else {
      const offsets = this.offsets(name, head);
      this.allocate(name, 4 * offsets[this.rows]);
      out = { offsets, values: this.intPart(name, head.parts[1], offsets[this.rows]) };
    }
    this.done.set(name, out);
    return out;
  }

  text(name: string): TextColumn {
    const known = this.done.get(name) as TextColumn | undefined;
    if (known) return known;
    const head = this.heads.get(name);
    let out: TextColumn;
    this.allocate(name, 4 * this.rows);
    if (!head) {
      out = { offsets: new Int32Array(this.rows + 1), bytes: new Uint8Array(0) };
    } else {
      const offsets = this.offsets(name, head);
      const part = this.part(name, head.parts[1], offsets[this.rows]);
      out = { offsets, bytes: new Uint8Array(part.buffer, part.byteOffset, part.byteLength) };
    }
    this.done.set(name, out);
    return out;
  }

  textAt(name: string, row: number): string {
    const { offsets, bytes } = this.text(name);
    return new TextDecoder().decode(bytes.subarray(offsets[row], offsets[row + 1]));
  }

  private allocate(column: string, bytes: number): void {
    this.budget.spend("decoded_bytes", bytes, `${this.where}.${column}`);
  }

  private offsets(name: string, head: ColumnHead): Int32Array {
    const lengths = this.intPart(name, head.parts[0], this.rows);
    const out = new Int32Array(this.rows + 1);
    let sum = 0;
    for (let i = 0; i < this.rows; i++) {
      if (lengths[i] < 0) throw this.bad("a negative length", name);
      sum += lengths[i];
      out[i + 1] = sum;
    }
    if (sum > 0x7fffffff) throw this.bad("more than 2^31 values", name);
    return out;
  }

  private intPart(name: string, part: Part, count: number): Int32Array {
    const raw = this.part(name, part, count);
    return raw instanceof Int32Array ? raw : Int32Array.from(raw);
  }

  private part(
    name: string,
    part: Part,
    count: number,
  ): Int8Array | Uint8Array | Int16Array | Int32Array | Float32Array | Float64Array {
    if (!Array.isArray(part)) throw this.bad("a part is missing", name);
    const [offset, size, kind] = part;
    const width = WIDTH[kind];
    if (width === undefined) throw this.bad(`stored as ${kind}, which is not known`, name);
    const start = this.data.byteOffset + this.base + offset;
    if (
      !(offset >= 0) ||
      start % width !== 0 ||
      size !== count * width ||
      this.base + offset + size > this.data.length
    ) {
      throw this.bad(`${size} bytes for ${count} values`, name);
    }
    // Buffers are padded to 8, so a member's own array is always aligned.
    const buffer = this.data.buffer as ArrayBuffer;
    switch (kind) {
      case "i8":
        return new Int8Array(buffer, start, count);
      case "u8":
        return new Uint8Array(buffer, start, count);
      case "i16":
        return new Int16Array(buffer, start, count);
      case "i32":
        return new Int32Array(buffer, start, count);
      case "f32":
        return new Float32Array(buffer, start, count);
      default:
        return new Float64Array(buffer, start, count);
    }
  }

  private bad(what: string, column = ""): GlassError {
    return new GlassError(
      what,
      column ? `${this.where}.${column}` : this.where,
      "The file is damaged; write it again.",
    );
  }
}
