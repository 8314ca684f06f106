/** How members of the .glass container are found and inflated; no byte is trusted unchecked. */

import { GlassError } from "../base/errors";
import type { Budget } from "./budget";

interface Entry {
  readonly method: number;
  readonly packed: number;
  readonly size: number;
  readonly header: number;
}

/** Deflate makes at most this many bytes of one. */
const MOST_OF_A_BYTE = 1032;

export class Zip {
  private readonly entries = new Map<string, Entry>();

  constructor(
    private readonly bytes: Uint8Array,
    private readonly budget: Budget,
  ) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const end = findEnd(view);
    const total = view.getUint16(end + 10, true);
    let at = view.getUint32(end + 16, true);
    const text = new TextDecoder();
    for (let i = 0; i < total; i++) {
      if (at + 46 > bytes.length || view.getUint32(at, true) !== 0x02014b50) {
        throw new GlassError(
          "the file's directory is damaged",
          `byte ${at}`,
          "Write the file again; it was cut or changed.",
        );
      }
      const nameLength = view.getUint16(at + 28, true);
      const name = text.decode(bytes.subarray(at + 46, at + 46 + nameLength));
      this.entries.set(name, {
        method: view.getUint16(at + 10, true),
        packed: view.getUint32(at + 20, true),
        size: view.getUint32(at + 24, true),
        header: view.getUint32(at + 42, true),
      });
      at += 46 + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    }
  }

  has(name: string): boolean {
    return this.entries.has(name);
  }

  names(): string[] {
    return [...this.entries.keys()];
  }

  async read(name: string): Promise<Uint8Array> {
    const e = this.entries.get(name);
    if (!e) throw new GlassError("the file lacks this part", name, "Write the file again; it was cut or changed.");
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength);
    if (e.header + 30 > this.bytes.length || view.getUint32(e.header, true) !== 0x04034b50) {
      throw new GlassError("a part does not start where the directory says", `${name}, byte ${e.header}`);
    }
    const start = e.header + 30 + view.getUint16(e.header + 26, true) + view.getUint16(e.header + 28, true);
    if (start + e.packed > this.bytes.length) throw new GlassError("a part is cut off", `${name}, byte ${start}`);
    const packed = this.bytes.subarray(start, start + e.packed);
    if (e.method !== 0 && e.method !== 8) throw new GlassError(`compression method ${e.method} is not known`, name);
    this.budget.spend("decoded_bytes", e.method === 0 ? e.packed : e.size, name);
    if (e.method === 0) return packed.slice();
    if (e.size > MOST_OF_A_BYTE * e.packed) {
      throw new GlassError(
        `${e.packed} bytes would inflate to ${e.size}, which none do`,
        name,
        "Write the file again; it was cut or changed.",
      );
    }
    return inflate(packed, e.size, name);
  }
}

function findEnd(view: DataView): number {
  const from = view.byteLength - 22;
  const to = Math.max(0, from - 65535);
  for (let i = from; i >= to; i--) if (view.getUint32(i, true) === 0x06054b50) return i;
  if (view.byteLength >= 4 && view.getUint32(0, true) === 0x04034b50) {
    throw new GlassError(
      "the file is cut off: its directory, which stands at the end, is missing",
      `byte ${view.byteLength}`,
      "Copy or write the file again.",
    );
  }
  throw new GlassError(
    "this is not a Glasshouse recording",
    "",
    "Open a .glass file, or convert the model first: glasshouse convert MODEL OUT.glass",
  );
}

async function inflate(packed: Uint8Array, size: number, name: string): Promise<Uint8Array> {
  const out = new Uint8Array(size);
  let at = 0;
  const stream = new Blob([packed as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > size) throw new GlassError("inflates to more than the directory says", name);
      out.set(value, at);
      at += value.length;
    }
  } catch (e) {
    if (e instanceof GlassError) throw e;
    throw new GlassError("the compressed data is damaged", name, "Write the file again; it was cut or changed.");
  }
  if (at !== size) throw new GlassError("inflates to less than the directory says", name);
  return out;
}
