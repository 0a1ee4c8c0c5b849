import type { LeaderElector } from '@oarlock/client/leader-election';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Logger } from '@oarlock/kernel/logger';
import type { Health, Role } from '@oarlock/spi/role';
import type { ControllerRunner } from './controller-runner.ts';

export interface ControllersRoleOptions {
  readonly runners: readonly ControllerRunner[];
  readonly log: Logger;
  /** Makes the elector that runs the controllers while it leads. Absent: they run from start to stop. */
  elect?(onStarted: (signal: AbortSignal) => Promise<void>): LeaderElector;
}

/** Runs all controllers, on the leader only where there is an election. */
export class ControllersRole implements Role, Lifecycle {
  readonly name = 'controllers';
  readonly #runners: readonly ControllerRunner[];
  readonly #log: Logger;
  readonly #elector: LeaderElector | undefined;
  readonly #abort = new AbortController();
  #run: Promise<void> | undefined;
  #failure: unknown;

  constructor({ runners, log, elect }: ControllersRoleOptions) {
    this.#runners = runners;
    this.#log = log;
    this.#elector = elect?.((signal) => this.#lead(signal));
  }

  async start(): Promise<void> {
    const { signal } = this.#abort;
    this.#run = (this.#elector === undefined ? this.#lead(signal) : this.#elector.run(signal)).catch((error: unknown) => {
      this.#failure = error;
      this.#log.error({ err: error }, 'the controllers have stopped');
    });
  }

  /** Resolves when no reconcile is under way any more and the lease is given back. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#run;
  }

  health(): Health {
    if (this.#failure === undefined) return { healthy: true };
    return { healthy: false, because: this.#failure instanceof Error ? this.#failure.message : String(this.#failure) };
  }

  /** The caches of all controllers are filled. */
  async ready(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#runners.map((runner) => runner.whenSynced(signal)));
  }

  /** One that fails takes the others with it: half a set of controllers is worse than none, for nobody notices. */
  async #lead(signal: AbortSignal): Promise<void> {
    const any = new AbortController();
    const stop = () => any.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    try {
      const ends = await Promise.allSettled(
        this.#runners.map(async (runner) => {
          try {
            await runner.run(any.signal);
          } catch (error) {
            any.abort(error);
            throw error;
          }
        }),
      );
      const failed = ends.find((end) => end.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }
}
