import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Placement } from '../placement.ts';
import type { Lifecycle } from '../plugin.ts';
import type { PluginHealth } from '../plugin-health.ts';

/** A plugin that takes longer to start or stop is reported in the log, in milliseconds. */
const slowMs = 10_000;

interface Callee {
  readonly name: string;
  readonly placement: Placement;
  readonly health: PluginHealth;
}

/** Calls `create`, `start` and `stop` of plugins: reports slow ones, and abandons those of a plugin with limits at its limit. */
export class LifecycleCalls {
  readonly #clock: Clock;
  readonly #log: Logger;

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  create<T>({ placement, health }: Callee, create: () => T): T {
    return placement.limits === undefined ? create() : health.run(create);
  }

  /** @throws the plugin's error; Error if a plugin with limits has not started in time or when the signal aborts */
  async start(callee: Callee, instance: Lifecycle | undefined, signal: AbortSignal): Promise<void> {
    if (instance?.start === undefined) return;
    const { limits } = callee.placement;
    const start = () => instance.start?.(signal) ?? Promise.resolve();
    await this.#watched(callee, 'the plugin is still starting', async () => {
      if (limits === undefined) return start();
      return this.#limited(callee, start, { ms: limits.startMs, what: 'start', signal });
    });
  }

  /** @throws the plugin's error; Error if a plugin with limits has not stopped in time */
  async stop(callee: Callee, instance: Lifecycle | undefined): Promise<void> {
    if (instance?.stop === undefined) return;
    const { limits } = callee.placement;
    const stop = () => instance.stop?.() ?? Promise.resolve();
    await this.#watched(callee, 'the plugin is still stopping', async () => {
      if (limits === undefined) return stop();
      return this.#limited(callee, stop, { ms: limits.stopMs, what: 'stop' });
    });
  }

  async #watched(callee: Callee, message: string, work: () => Promise<void>): Promise<void> {
    const slow = this.#clock.after(slowMs, () => this.#log.warn({ plugin: callee.name }, message));
    try {
      await work();
    } finally {
      slow.cancel();
    }
  }

  #limited(
    { health }: Callee,
    work: () => Promise<void>,
    { ms, what, signal }: { readonly ms: number; readonly what: string; readonly signal?: AbortSignal },
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.after(ms, () => {
        const error = new Error(`${what} did not return within ${ms} ms`);
        health.report('deadline', error);
        reject(error);
      });
      const abort = () => reject(signal?.reason);
      signal?.addEventListener('abort', abort, { once: true });
      health
        .run(async () => work())
        .then(resolve, reject)
        .finally(() => {
          timer.cancel();
          signal?.removeEventListener('abort', abort);
        });
    });
  }
}
