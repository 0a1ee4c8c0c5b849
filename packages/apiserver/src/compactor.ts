import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { StorageDriver } from '@oarlock/spi/storage';

const interval = 5 * 60_000;

export interface CompactorOptions {
  readonly storage: StorageDriver;
  readonly clock: Clock;
  readonly log: Logger;
  readonly revision: () => number;
}

/** Lets storage forget what is older than five minutes, as upstream does. Several servers may do so at once. */
export class Compactor {
  readonly #options: CompactorOptions;
  #timer: Timer | undefined;
  #seen = 0;
  constructor(options: CompactorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#seen = this.#options.revision();
    this.#arm();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    const { storage, clock, log, revision } = this.#options;
    this.#timer = clock.after(interval, () => {
      const before = this.#seen;
      this.#seen = revision();
      if (before > 0)
        storage
          .compact(before)
          .catch((error: unknown) => log.warn({ revision: before, error: String(error) }, 'storage was not compacted'));
      this.#arm();
    });
  }
}
