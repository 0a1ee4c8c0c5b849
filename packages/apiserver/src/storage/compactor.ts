import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageDriver } from '@oarlock/spi/storage';

const compactionIntervalMs = 5 * 60_000;

export interface CompactorOptions {
  readonly storage: StorageDriver;
  readonly clock: Clock;
  readonly log: Logger;
  readonly revision: () => number;
}

/** Compacts storage every five minutes, to the revision of five minutes before, as upstream does. Several API servers can do so concurrently. */
export class Compactor {
  readonly #options: CompactorOptions;
  #timer: Timer | undefined;
  #lastRevision = 0;
  constructor(options: CompactorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#lastRevision = this.#options.revision();
    this.#schedule();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #schedule(): void {
    const { storage, clock, log, revision } = this.#options;
    this.#timer = clock.after(compactionIntervalMs, () => {
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
