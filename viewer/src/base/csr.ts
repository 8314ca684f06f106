/** How "many to each" is held: two flat arrays (offsets, values), never arrays of arrays. */

export interface Csr {
  /** n + 1 entries; row i is values[offsets[i] .. offsets[i + 1]). */
  readonly offsets: Int32Array;
  readonly values: Int32Array;
}

/** Buckets 0..keys.length-1 by key (negative keys are left out); order inside a bucket is kept. */
export function bucket(keys: Int32Array, rows: number): Csr {
  const offsets = new Int32Array(rows + 1);
  let kept = 0;
  for (let i = 0; i < keys.length; i++) {
    if (keys[i] < 0) continue;
    offsets[keys[i] + 1]++;
    kept++;
  }
  for (let i = 0; i < rows; i++) offsets[i + 1] += offsets[i];
  const values = new Int32Array(kept);
  const at = offsets.slice(0, rows);
  for (let i = 0; i < keys.length; i++) if (keys[i] >= 0) values[at[keys[i]]++] = i;
  return { offsets, values };
}
