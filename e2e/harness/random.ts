/** Returns numbers from 0 to 1 that depend only on the seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** `OARLOCK_SEED`, or a fixed seed: a failure is reproducible. */
export const seed = Number(process.env['OARLOCK_SEED'] ?? 36);
