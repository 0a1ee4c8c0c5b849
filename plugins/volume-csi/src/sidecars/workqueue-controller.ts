import { isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { Workqueue } from '@oarlock/primitives/workqueue/workqueue';
import type { Informer } from '@oarlock/spi/client';

export interface WorkqueueControllerOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** The caches that `reconcile` reads. The workers start when all caches have synced. */
  readonly caches: readonly Pick<Informer, 'whenSynced'>[];
  /** Reconciles one key. After an error, the key is reconciled again with exponential backoff. */
  reconcile(key: string): Promise<void>;
}

const workerCount = 8;

/** A controller with a rate-limited workqueue of keys and a few workers. */
export class WorkqueueController {
  readonly #options: WorkqueueControllerOptions;
  readonly #queue: Workqueue<string>;
  readonly #off: (() => void)[] = [];
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: WorkqueueControllerOptions) {
    this.#options = options;
    this.#queue = new Workqueue({ clock: options.clock, failureDelay: { firstMs: 500, longestMs: 60_000 } });
  }

  add(key: string): void {
    this.#queue.add(key);
  }
  addAfter(key: string, ms: number): void {
    this.#queue.addAfter(key, ms);
  }

  /** Starts the workers. @param off the functions that remove the event handlers that add keys; called when the controller stops */
  start(...off: readonly (() => void)[]): void {
    this.#off.push(...off);
    this.#running = Promise.all(this.#options.caches.map((cache) => cache.whenSynced())).then(() =>
      Promise.all(Array.from({ length: workerCount }, () => this.#work())),
    );
  }

  async stop(): Promise<void> {
    for (const off of this.#off.splice(0)) off();
    this.#queue.shutDown();
    await this.#running;
  }

  async #work(): Promise<void> {
    for (let work = await this.#queue.get(); work !== undefined; work = await this.#queue.get()) {
      const { key } = work;
      try {
        await this.#options.reconcile(key);
        this.#queue.forget(key);
      } catch (error) {
        const retryMs = this.#queue.addRateLimited(key);
        // after a conflict, the watch event of the other write adds the key as well
        if (!isStatus(error, 'Conflict'))
          this.#options.log.warn(
            { controller: this.#options.name, about: key, error: String(error), retryMs },
            'cannot reconcile a volume, retrying',
          );
      } finally {
        this.#queue.done(key);
      }
    }
  }
}
