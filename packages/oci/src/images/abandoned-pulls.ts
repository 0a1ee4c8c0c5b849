import { stat } from 'node:fs/promises';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { ContentStore } from '../content/content-store.ts';
import type { Leases } from '../content/leases.ts';

/** How long the content of failed pulls waits for the next try: three times the longest back-off of the kubelet. Milliseconds. */
export const abandonedAfterMs = 15 * 60_000;

export interface AbandonedPullsOptions {
  readonly content: ContentStore;
  readonly leases: Leases;
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Logger;
  /** Removes all content that nothing uses. */
  collect(): Promise<unknown>;
  /** Runs work while no other work changes the store. */
  change(work: () => Promise<void>): Promise<void>;
}

/**
 * Gives back the space of failed pulls that are not repeated. After a period without a failed pull, unused content is removed. Before that, a partial
 * download is removed that did not grow in a period.
 */
export class AbandonedPulls {
  readonly #options: AbandonedPullsOptions;
  #timer: Timer | undefined;
  #hasFailed = false;
  #sizes: ReadonlyMap<string, number> = new Map();

  constructor(options: AbandonedPullsOptions) {
    this.#options = options;
  }

  /** Registers a failed pull, or content of earlier ones. */
  add(): void {
    this.#hasFailed = true;
    if (this.#timer === undefined) this.#arm();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(abandonedAfterMs, () => {
      this.#timer = undefined;
      this.#collect().catch((error: unknown) => this.#options.log.warn({ err: error }, 'content of failed pulls was not removed'));
    });
  }

  async #collect(): Promise<void> {
    if (this.#hasFailed) {
      this.#hasFailed = false;
      this.#arm();
      await this.#options.change(() => this.#removeStale());
    } else {
      this.#sizes = new Map();
      await this.#options.collect();
    }
  }

  async #removeStale(): Promise<void> {
    const { content, leases } = this.#options;
    const sizes = new Map<string, number>();
    for (const partial of await content.partials()) {
      if (leases.has(partial.digest)) continue;
      const { size } = await stat(partial.file);
      if (this.#sizes.get(partial.file) === size) await content.removePartial(partial);
      else sizes.set(partial.file, size);
    }
    this.#sizes = sizes;
  }
}
