import { setMaxListeners } from 'node:events';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { Backoff } from '@oarlock/primitives/backoff';
import type { LeaderElector } from '@oarlock/client/leader-election/leader-elector';
import type { Clock } from '@oarlock/primitives/clock';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Logger } from '@oarlock/primitives/logger';
import type { Health, Role } from '@oarlock/spi/role';
import type { ControllerRunner } from './controller-runner.ts';
import type { ResourceDiscovery } from '@oarlock/client/resource-discovery';

export interface ControllerManagerOptions {
  readonly runners: readonly ControllerRunner[];
  readonly log: Logger;
  readonly clock: Clock;
  /** A random number generator: returns a number in [0, 1). */
  readonly random: () => number;
  /** Reports the resources that the API server serves. A controller whose kinds are not served starts when the API server serves them. */
  readonly discovery: ResourceDiscovery;
  /** Tasks that run from the start to the stop of the manager, independently of leader election. */
  readonly backgroundTasks?: readonly ((signal: AbortSignal) => Promise<void>)[];
  /** Creates the elector that runs the controllers while this process is the leader. If absent, the controllers run from start to stop. */
  elect?(onStarted: (signal: AbortSignal) => Promise<void>): LeaderElector;
}

/** Formats a resource as group version and plural, for example `batch/v1 cronjobs`, because the API server may serve only another version. */
const formatResource = (resource: Resource) => `${apiVersionOf(resource)} ${resource.resource}`;

/** Runs each controller as soon as the API server serves its kinds; with leader election, only on the leader. */
export class ControllerManager implements Role, Lifecycle {
  readonly name = 'controllers';
  readonly #options: ControllerManagerOptions;
  readonly #log: Logger;
  readonly #elector: LeaderElector | undefined;
  readonly #abort = new AbortController();
  #runnableRunners: Promise<readonly ControllerRunner[]> | undefined;
  #run: Promise<unknown> | undefined;
  #failure: unknown;

  constructor(options: ControllerManagerOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#elector = options.elect?.((signal) => this.#runControllers(signal));
  }

  async start(): Promise<void> {
    const { signal } = this.#abort;
    const { backgroundTasks: tasks = [] } = this.#options;
    const runs = [
      this.#elector === undefined ? this.#runControllers(signal) : this.#elector.run(signal),
      ...tasks.map((each) => each(signal)),
    ];
    this.#run = Promise.all(
      runs.map((run) =>
        run.catch((error: unknown) => {
          this.#failure = error;
          this.#log.error({ err: error }, 'the controllers have stopped');
        }),
      ),
    );
  }

  /** Stops the controllers. Resolves when no reconcile is in flight and the Lease is released. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#run;
  }

  checkHealth(): Health {
    if (this.#failure === undefined) return { healthy: true };
    return { healthy: false, reason: this.#failure instanceof Error ? this.#failure.message : String(this.#failure) };
  }

  /** Resolves when the caches of all controllers that can run have synced. */
  async waitUntilReady(signal: AbortSignal): Promise<void> {
    setMaxListeners(0, signal); // each informer adds a listener while it syncs
    await Promise.all((await this.#runners()).map((runner) => runner.whenSynced(signal)));
  }

  /** Returns the runners of the controllers whose kinds are served. Determines them once, and retries until the API server answers. */
  #runners(): Promise<readonly ControllerRunner[]> {
    this.#runnableRunners ??= this.#findRunnable(this.#abort.signal);
    return this.#runnableRunners;
  }

  async #findRunnable(signal: AbortSignal): Promise<readonly ControllerRunner[]> {
    const { runners, discovery, clock, random } = this.#options;
    const backoff = new Backoff({ firstMs: 200, longestMs: 10_000, jitter: 0.5, random });
    for (;;) {
      try {
        return this.#selectRunnable(await Promise.all(runners.map((runner) => discovery.missing(runner.resources))));
      } catch (error) {
        signal.throwIfAborted();
        const delayMs = backoff.next();
        this.#log.warn({ err: error, delayMs }, 'cannot read the resources of the API server; retrying');
        await clock.sleep(delayMs, signal);
      }
    }
  }

  /** Returns the runners that can run. `missing` contains the missing resources of each runner, at the runner's position in `runners`. */
  #selectRunnable(missing: readonly (readonly Resource[])[]): readonly ControllerRunner[] {
    const missingKinds = new Map(this.#options.runners.map((runner, at) => [runner, new Set((missing[at] ?? []).map(formatResource))]));
    const waiting: Record<string, readonly string[]> = {};
    const partial: Record<string, readonly string[]> = {};
    const runnable = [...missingKinds].flatMap(([runner, kinds]) => {
      if (kinds.size === 0) return [runner];
      (runner.toleratesMissingKinds ? partial : waiting)[runner.name] = [...kinds];
      if (runner.toleratesMissingKinds) runner.skipWaitingFor((resource) => kinds.has(formatResource(resource)));
      return runner.toleratesMissingKinds ? [runner] : [];
    });
    if (Object.keys(waiting).length > 0)
      this.#log.warn({ controllers: waiting }, 'controllers wait until the API server serves their kinds');
    if (Object.keys(partial).length > 0)
      this.#log.info({ controllers: partial }, 'controllers run without kinds that the API server does not serve');
    return runnable;
  }

  /** True if another process may have been the leader before: the caches must be refreshed before the first reconcile. */
  get #hadOtherLeaders(): boolean {
    return this.#elector !== undefined;
  }

  /** Runs a controller as soon as the API server serves the kinds that the controller watches. */
  async #runWhenServed(runner: ControllerRunner, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.discovery.whenServed(runner.resources, signal);
    } catch {
      return; // the leadership term ended
    }
    this.#log.info({ controller: runner.name }, 'the API server serves the kinds of a controller now; starting it');
    await runner.run(signal, this.#hadOtherLeaders);
  }

  /** Runs all controllers. If one controller fails, stops all controllers, because an incomplete set could remain unnoticed. */
  async #runControllers(signal: AbortSignal): Promise<void> {
    const group = new AbortController();
    const stop = () => group.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    try {
      const runnable = new Set(await this.#runners());
      setMaxListeners(0, group.signal);
      const ends = await Promise.allSettled(
        this.#options.runners.map(async (runner) => {
          try {
            await (runnable.has(runner) ? runner.run(group.signal, this.#hadOtherLeaders) : this.#runWhenServed(runner, group.signal));
          } catch (error) {
            group.abort(error);
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
