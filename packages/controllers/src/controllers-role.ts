import { setMaxListeners } from 'node:events';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { Backoff } from '@oarlock/client/backoff';
import type { LeaderElector } from '@oarlock/client/leader-election';
import type { Clock } from '@oarlock/kernel/clock';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Logger } from '@oarlock/kernel/logger';
import type { Health, Role } from '@oarlock/spi/role';
import type { ControllerRunner } from './controller-runner.ts';
import type { ServedResources } from '@oarlock/client/served-resources';

export interface ControllersRoleOptions {
  readonly runners: readonly ControllerRunner[];
  readonly log: Logger;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  /** What the server has: controllers of kinds that it does not have wait for them. */
  readonly served: ServedResources;
  /** What runs from start to stop, whoever leads. */
  readonly apart?: readonly ((signal: AbortSignal) => Promise<void>)[];
  /** Makes the elector that runs the controllers while it leads. Absent: they run from start to stop. */
  elect?(onStarted: (signal: AbortSignal) => Promise<void>): LeaderElector;
}

/** `batch/v1 cronjobs`: the server may have another version of it. */
const nameOf = (resource: Resource) => `${apiVersionOf(resource)} ${resource.resource}`;

/** Runs each controller as soon as the server has its kinds, on the leader only where there is an election. */
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
        return this.#sort(await Promise.all(runners.map((runner) => served.missing(runner.resources))));
      } catch (error) {
        signal.throwIfAborted();
        const delayMs = backoff.next();
        this.#log.warn({ err: error, delayMs }, 'the server does not say what it has; asking again');
        await clock.sleep(delayMs, signal);
      }
    }
  }

  /** Those that can run with what the server has; by position in `runners`, what each misses. */
  #sort(missing: readonly (readonly Resource[])[]): readonly ControllerRunner[] {
    const misses = new Map(this.#options.runners.map((runner, at) => [runner, new Set((missing[at] ?? []).map(nameOf))]));
    const waiting: Record<string, readonly string[]> = {};
    const partial: Record<string, readonly string[]> = {};
    const runnable = [...misses].flatMap(([runner, kinds]) => {
      if (kinds.size === 0) return [runner];
      (runner.partial ? partial : waiting)[runner.name] = [...kinds];
      if (runner.partial) runner.without((resource) => kinds.has(nameOf(resource)));
      return runner.partial ? [runner] : [];
    });
    if (Object.keys(waiting).length > 0)
      this.#log.warn({ controllers: waiting }, 'these controllers do not run until the server has their kinds');
    if (Object.keys(partial).length > 0)
      this.#log.info({ controllers: partial }, 'these controllers run without kinds that the server does not have');
    return runnable;
  }

  /** Another process may have led before. */
  get #succeeds(): boolean {
    return this.#elector !== undefined;
  }

  /** Runs one whose kinds the server did not have, from when it has them. */
  async #runLater(runner: ControllerRunner, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.served.whenServed(runner.resources, signal);
    } catch {
      return; // the term is over
    }
    this.#log.info({ controller: runner.name }, 'the server has what a controller needs by now: it runs');
    await runner.run(signal, this.#succeeds);
  }

  /** One that fails takes the others with it: half a set of controllers is worse than none, for nobody notices. */
  async #lead(signal: AbortSignal): Promise<void> {
    const any = new AbortController();
    const stop = () => any.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    try {
      const runnable = new Set(await this.#runners());
      setMaxListeners(0, any.signal);
      const ends = await Promise.allSettled(
        this.#options.runners.map(async (runner) => {
          try {
            await (runnable.has(runner) ? runner.run(any.signal, this.#succeeds) : this.#runLater(runner, any.signal));
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
