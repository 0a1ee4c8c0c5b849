import { setMaxListeners } from 'node:events';
import { Backoff } from '@oarlock/client/backoff';
import type { LeaderElector } from '@oarlock/client/leader-election';
import type { Clock } from '@oarlock/kernel/clock';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Logger } from '@oarlock/kernel/logger';
import type { Health, Role } from '@oarlock/spi/role';
import type { ControllerRunner } from './controller-runner.ts';
import type { ServedResources } from './served-resources.ts';

export interface ControllersRoleOptions {
  readonly runners: readonly ControllerRunner[];
  readonly log: Logger;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  /** What the server has: controllers of kinds that it does not have are left out. */
  readonly served: ServedResources;
  /** What runs from start to stop, whoever leads. */
  readonly apart?: readonly ((signal: AbortSignal) => Promise<void>)[];
  /** Makes the elector that runs the controllers while it leads. Absent: they run from start to stop. */
  elect?(onStarted: (signal: AbortSignal) => Promise<void>): LeaderElector;
}

/** Runs all controllers that the server has the kinds for, on the leader only where there is an election. */
export class ControllersRole implements Role, Lifecycle {
  readonly name = 'controllers';
  readonly #options: ControllersRoleOptions;
  readonly #log: Logger;
  readonly #elector: LeaderElector | undefined;
  readonly #abort = new AbortController();
  #runnable: Promise<readonly ControllerRunner[]> | undefined;
  #run: Promise<unknown> | undefined;
  #failure: unknown;

  constructor(options: ControllersRoleOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#elector = options.elect?.((signal) => this.#lead(signal));
  }

  async start(): Promise<void> {
    const { signal } = this.#abort;
    const { apart = [] } = this.#options;
    const works = [this.#elector === undefined ? this.#lead(signal) : this.#elector.run(signal), ...apart.map((each) => each(signal))];
    this.#run = Promise.all(
      works.map((work) =>
        work.catch((error: unknown) => {
          this.#failure = error;
          this.#log.error({ err: error }, 'the controllers have stopped');
        }),
      ),
    );
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
    setMaxListeners(0, signal); // each informer that is waited for listens
    await Promise.all((await this.#runners()).map((runner) => runner.whenSynced(signal)));
  }

  /** Found out once; asked again until the server answers. */
  #runners(): Promise<readonly ControllerRunner[]> {
    this.#runnable ??= this.#find(this.#abort.signal);
    return this.#runnable;
  }

  async #find(signal: AbortSignal): Promise<readonly ControllerRunner[]> {
    const { runners, served, clock, random } = this.#options;
    const backoff = new Backoff({ firstMs: 200, longestMs: 10_000, jitter: 0.5, random });
    for (;;) {
      try {
        const missing = await Promise.all(runners.map((runner) => served.missing(runner.resources)));
        return runners.filter(({ name }, at) => {
          const kinds = missing[at] ?? [];
          if (kinds.length > 0)
            this.#log.info({ controller: name, kinds }, 'a controller does not run: the server does not have its kinds');
          return kinds.length === 0;
        });
      } catch (error) {
        signal.throwIfAborted();
        const delayMs = backoff.next();
        this.#log.warn({ err: error, delayMs }, 'the server does not say what it has; asking again');
        await clock.sleep(delayMs, signal);
      }
    }
  }

  /** One that fails takes the others with it: half a set of controllers is worse than none, for nobody notices. */
  async #lead(signal: AbortSignal): Promise<void> {
    const any = new AbortController();
    const stop = () => any.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    try {
      const runners = await this.#runners();
      const ends = await Promise.allSettled(
        runners.map(async (runner) => {
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
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }
}
