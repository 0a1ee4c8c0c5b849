import type { Digest } from './digest.ts';

/** Returns the key of a layer: the chain id of an uncompressed layer can be the digest of its blob as well. */
export const layerLease = (chainId: Digest): string => `layer ${chainId}`;

/** Counts of running operations that use blobs and layers, which garbage collection must keep. */
export class Leases {
  readonly #counts = new Map<string, number>();

  has(key: string): boolean {
    return this.#counts.has(key);
  }

  /** Holds blobs by digest, and layers by `layerLease`, until the returned function is called. */
  hold(digests: readonly string[]): () => void {
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

  /** Returns a holder for one operation, which holds more and more, and releases everything at once. */
  holder(): { readonly add: (keys: readonly string[]) => void; readonly release: () => void } {
    const releases: (() => void)[] = [];
    return {
      add: (keys) => releases.push(this.hold(keys)),
      release: () => {
        for (const release of releases) release();
      },
    };
  }
}
