import type { Digest } from '../content/digest.ts';

/** Counts of running operations that use blobs and layers, which garbage collection must keep. */
export class Leases {
  readonly #counts = new Map<Digest, number>();

  has(digest: Digest): boolean {
    return this.#counts.has(digest);
  }

  /** Holds digests until the returned function is called. */
  hold(digests: readonly Digest[]): () => void {
    for (const digest of digests) this.#counts.set(digest, (this.#counts.get(digest) ?? 0) + 1);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      for (const digest of digests) {
        const count = (this.#counts.get(digest) ?? 1) - 1;
        if (count === 0) this.#counts.delete(digest);
        else this.#counts.set(digest, count);
      }
    };
  }
}
