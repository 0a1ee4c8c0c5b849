import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageDriver } from '@oarlock/spi/storage';

export interface CompactorOptions {
  readonly storage: StorageDriver;
  readonly clock: Clock;
  readonly log: Logger;
  readonly revision: () => number;
  /** The interval of compactions; 0 disables them. */
  readonly intervalMs: number;
}

/** Compacts storage periodically to the revision of the previous interval, as upstream does. Several API servers can do so concurrently. */
export class Compactor {
  readonly #options: CompactorOptions;
  #timer: Timer | undefined;
  #lastRevision = 0;
  constructor(options: CompactorOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#options.intervalMs === 0) return;
    this.#lastRevision = this.#options.revision();
    this.#schedule();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #schedule(): void {
    const { storage, clock, log, revision, intervalMs } = this.#options;
    this.#timer = clock.after(intervalMs, () => {
      const before = this.#lastRevision;
      this.#lastRevision = revision();
      if (before > 0)
        storage
          .compact(before)
          .catch((error: unknown) => log.warn({ revision: before, error: String(error) }, 'storage was not compacted'));
      this.#schedule();
    });
  }
}
