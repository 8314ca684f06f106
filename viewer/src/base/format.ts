/** How figures and types are worded: three significant digits, units, short dtypes. */

const THIN = "\u2009";

/** 1234567 -> "1 234 567" with thin spaces; for exact counts. */
export function count(n: number): string {
  return Math.round(n)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

function three(v: number): string {
  const a = Math.abs(v);
  if (a === 0) return "0";
  return v.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2).replace(/\.?0+$/, (m) => (m.includes(".") ? "" : m));
}

/** 1234567 -> "1.23M"; for labels that have little room. */
export function short(n: number): string {
  const a = Math.abs(n);
  if (a < 1000) return Number.isInteger(n) ? String(n) : three(n);
  for (const [unit, size] of [
    ["T", 1e12],
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    if (a >= size * 0.9995) return three(n / size) + unit;
  }
  return three(n);
}

/** Seconds in the unit that gives 1 to 999. */
export function seconds(s: number): string {
  const a = Math.abs(s);
  if (!Number.isFinite(s)) return "–";
  if (a === 0) return `0${THIN}s`;
  if (a < 999.5e-9) return `${three(s * 1e9) + THIN}ns`;
  if (a < 999.5e-6) return `${three(s * 1e6) + THIN}µs`;
  if (a < 0.9995) return `${three(s * 1e3) + THIN}ms`;
  return `${three(s) + THIN}s`;
}

export function bytes(b: number): string {
  const a = Math.abs(b);
  for (const [unit, size] of [
    ["TB", 1e12],
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ] as const) {
    if (a >= size * 0.9995) return three(b / size) + THIN + unit;
  }
  return `${three(b) + THIN}B`;
}

export function percent(share: number): string {
  const p = share * 100;
  return `${(p >= 99.95 || p === 0 ? p.toFixed(0) : p >= 9.95 ? p.toFixed(0) : p.toFixed(1)) + THIN}%`;
}

const DTYPES: Readonly<Record<string, string>> = {
  float64: "f64",
  float32: "f32",
  float16: "f16",
  bfloat16: "bf16",
  float: "f32",
  double: "f64",
  half: "f16",
  int64: "i64",
  int32: "i32",
  int16: "i16",
  int8: "i8",
  uint8: "u8",
  uint16: "u16",
  uint32: "u32",
  uint64: "u64",
  bool: "b8",
  boolean: "b8",
  complex64: "c64",
  complex128: "c128",
  float8_e4m3fn: "f8e4",
  float8_e5m2: "f8e5",
};

/** "float32[1, 128, 768]" -> "f32[1,128,768]"; anything else comes back as it was. */
export function shortType(type: string): string {
  const m = /^\s*(?:torch\.)?([a-z]\w*)\s*([[(].*[\])])\s*$/i.exec(type.length > 400 ? type.slice(0, 400) : type);
  if (!m) return type;
  return (DTYPES[m[1].toLowerCase()] ?? m[1]) + m[2].replace(/\s+/g, "").replace(/^\(/, "[").replace(/\)$/, "]");
}

const DTYPE_BYTES: Readonly<Record<string, number>> = {
  f64: 8,
  i64: 8,
  u64: 8,
  c64: 8,
  c128: 16,
  f32: 4,
  i32: 4,
  u32: 4,
  f16: 2,
  bf16: 2,
  i16: 2,
  u16: 2,
  i8: 1,
  u8: 1,
  b8: 1,
  f8e4: 1,
  f8e5: 1,
};

/** Elements and bytes of a printed type with constant dimensions; -1 where a dimension is a symbol. */
export function typeSize(type: string): { elements: number; bytes: number } {
  const s = shortType(type);
  const m = /^(\w+)\[(.*)\]$/.exec(s);
  if (!m) return { elements: -1, bytes: -1 };
  let elements = 1;
  for (const d of m[2] ? m[2].split(",") : []) {
    const v = Number(d);
    if (!Number.isInteger(v) || v < 0) return { elements: -1, bytes: -1 };
    elements *= v;
  }
  const size = DTYPE_BYTES[m[1]];
  return { elements, bytes: size === undefined ? -1 : elements * size };
}
