import type { Clock } from '../clock.ts';
import { deferred } from './deferred.ts';
import type { Logger } from '../logger.ts';

export interface CoalescingRunnerOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Log message for a failed run. */
  readonly failureMessage: string;
  /** Does the work. If the promise rejects, the error is logged and a new run starts after 5 s. */
  run(): Promise<void>;
}

/** Delay between a failed run and the next one, in milliseconds. */
const retryDelayMs = 5_000;

/** Runs one piece of work at a time, and once more if it was triggered during a run (async.BoundedFrequencyRunner upstream). */
export class CoalescingRunner {
  readonly #options: CoalescingRunnerOptions;
  #pending = false;
  #stopped = false;
  #running: Promise<void> | undefined;
  readonly #succeeded = deferred();

  constructor(options: CoalescingRunnerOptions) {
    this.#options = options;
  }

  /** Requests a run. Resolves when no run is in progress or pending; never rejects. */
  trigger(): Promise<void> {
    this.#pending = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      if (this.#pending && !this.#stopped) void this.trigger();
    });
    return this.#running;
  }

  /** Resolves when a run has succeeded. Never rejects. */
  whenSucceeded(): Promise<void> {
    return this.#succeeded.promise;
  }

  /** Prevents further runs. Resolves when the run in progress has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, log, failureMessage } = this.#options;
    while (this.#pending && !this.#stopped) {
      this.#pending = false;
      try {
        await this.#options.run();
        this.#succeeded.resolve();
      } catch (error) {
        log.warn({ error: String(error) }, failureMessage);
        clock.after(retryDelayMs, () => {
          if (!this.#stopped) void this.trigger();
        });
      }
    }
  }
}
