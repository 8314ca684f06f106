/** How lists of numbers of unknown length grow: typed arrays doubled in place, no boxing. */

export class Ints {
  data: Int32Array;
  length = 0;

  constructor(capacity = 16) {
    this.data = new Int32Array(Math.max(4, capacity));
  }

  push(v: number): number {
    if (this.length === this.data.length) this.reserve(this.length + 1);
    this.data[this.length] = v;
    return this.length++;
  }

  reserve(n: number): void {
    if (n <= this.data.length) return;
    const next = new Int32Array(Math.max(n, this.data.length * 2));
    next.set(this.data.subarray(0, this.length));
    this.data = next;
  }

  clear(): void {
    this.length = 0;
  }

  /** The filled part, as a copy that later pushes do not touch. */
  take(): Int32Array {
    return this.data.slice(0, this.length);
  }
}

export class Floats {
  data: Float32Array;
  length = 0;

  constructor(capacity = 16) {
    this.data = new Float32Array(Math.max(4, capacity));
  }

  push(v: number): number {
    if (this.length === this.data.length) this.reserve(this.length + 1);
    this.data[this.length] = v;
    return this.length++;
  }

  reserve(n: number): void {
    if (n <= this.data.length) return;
    const next = new Float32Array(Math.max(n, this.data.length * 2));
    next.set(this.data.subarray(0, this.length));
    this.data = next;
  }

  clear(): void {
    this.length = 0;
  }

  take(): Float32Array {
    return this.data.slice(0, this.length);
  }
}
