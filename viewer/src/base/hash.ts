/** How structures are fingerprinted: 32-bit mixing, deterministic across runs and machines. */

/** Mixes `v` into `h`. Multipliers are odd constants of the murmur family; quality, not secrecy. */
export function mix(h: number, v: number): number {
  h = Math.imul(h ^ v, 0x5bd1e995);
  h ^= h >>> 15;
  return Math.imul(h, 0x27d4eb2d) ^ (h >>> 13);
}

/** A final avalanche, so that sums of hashes (order-free sets) do not cancel. */
export function finish(h: number): number {
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** A text as a number. */
export function hashText(text: string): number {
  let h = text.length;
  for (let i = 0; i < text.length; i++) h = mix(h, text.charCodeAt(i));
  return finish(h);
}
