import { isStatus } from '@oarlock/api/status';
import { Workqueue } from '@oarlock/client/workqueue';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Informer } from '@oarlock/spi/client';

export interface WorkLoopOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** What the work reads from: it begins when all of them are there. */
  readonly caches: readonly Pick<Informer, 'whenSynced'>[];
  /** Looks at one thing. What it throws is tried again, with growing pauses. */
  work(key: string): Promise<void>;
}

const workers = 8;

/** Keys that are worked on by a few workers until they are as they should be. */
export class WorkLoop {
  readonly #options: WorkLoopOptions;
  readonly #queue: Workqueue<string>;
  readonly #off: (() => void)[] = [];
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: WorkLoopOptions) {
    this.#options = options;
    this.#queue = new Workqueue({ name: options.name, clock: options.clock, failureDelay: { firstMs: 500, longestMs: 60_000 } });
  }

  add(key: string): void {
    this.#queue.add(key);
  }
  addAfter(key: string, ms: number): void {
    this.#queue.addAfter(key, ms);
  }

  /** `off`: what ends the handlers that add keys. */
  start(...off: readonly (() => void)[]): void {
    this.#off.push(...off);
    this.#running = Promise.all(this.#options.caches.map((cache) => cache.whenSynced())).then(() =>
      Promise.all(Array.from({ length: workers }, () => this.#work())),
    );
  }

  async stop(): Promise<void> {
    for (const off of this.#off.splice(0)) off();
    this.#queue.shutDown();
    await this.#running;
  }

  async #work(): Promise<void> {
    for (let work = await this.#queue.next(); work !== undefined; work = await this.#queue.next()) {
      const { key } = work;
      try {
        await this.#options.work(key);
        this.#queue.forget(key);
      } catch (error) {
        const retryMs = this.#queue.addRateLimited(key);
        // somebody was faster: what they wrote brings the key again
        if (!isStatus(error, 'Conflict'))
          this.#options.log.warn({ about: key, error: String(error), retryMs }, 'a volume is not as it should be yet');
      } finally {
        this.#queue.done(key);
      }
    }
  }
}
