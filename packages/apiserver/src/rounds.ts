import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';

export interface RoundsOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** What the log says when a round failed. */
  readonly complaint: string;
  /** One round. What it throws is logged, and the round is tried again after 5 s. */
  settle(): Promise<void>;
}

const againMs = 5_000;

/** One round of work at a time, and one more when something happened meanwhile. */
export class Rounds {
  readonly #options: RoundsOptions;
  #pending = false;
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(options: RoundsOptions) {
    this.#options = options;
  }

  /** Something happened. Resolves when no round is under way or due; never rejects. */
  look(): Promise<void> {
    this.#pending = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      if (this.#pending && !this.#stopped) void this.look();
    });
    return this.#running;
  }

  /** No round begins any more. Resolves when the last one has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, log, complaint } = this.#options;
    while (this.#pending && !this.#stopped) {
      this.#pending = false;
      try {
        await this.#options.settle();
      } catch (error) {
        log.warn({ error: String(error) }, complaint);
        clock.after(againMs, () => {
          if (!this.#stopped) void this.look();
        });
      }
    }
  }
}
