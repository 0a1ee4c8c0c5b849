import type { Clock } from '@oarlock/primitives/clock';
import type { StorageCondition, StorageDriver } from '@oarlock/spi/storage';
import type { ClusterEvents } from './cluster-events.ts';

/** Time in milliseconds after which the Event of a condition that lasts is written again: Events are kept for an hour. */
const repeatMs = 3_600_000;

interface Lasting {
  readonly condition: StorageCondition;
  /** Milliseconds since the epoch. */
  readonly since: number;
  reportedAt: number;
}

export interface StorageConditionEventsOptions {
  readonly storage: Pick<StorageDriver, 'watchConditions'>;
  readonly events: Pick<ClusterEvents, 'record'>;
  readonly clock: Clock;
}

/**
 * Writes a Warning Event when a condition of the storage starts, and a Normal Event when it ends. If the storage rejects commits during the condition,
 * both are written at its end. Every server notices the condition, and one Event is written for all of them.
 */
export class StorageConditionEvents {
  readonly #options: StorageConditionEventsOptions;
  readonly #lasting = new Map<string, Lasting>();
  #unsubscribe: (() => void) | undefined;

  constructor(options: StorageConditionEventsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#unsubscribe = this.#options.storage.watchConditions?.((conditions) => this.#update(conditions));
  }

  stop(): void {
    this.#unsubscribe?.();
  }

  #update(conditions: readonly StorageCondition[]): void {
    const now = this.#options.clock.now();
    for (const condition of conditions) this.#report(condition, now);
    const present = new Set(conditions.map(({ reason }) => reason));
    for (const [reason, { condition, since }] of this.#lasting) {
      if (present.has(reason)) continue;
      this.#lasting.delete(reason);
      const from = new Date(since).toISOString();
      const { events } = this.#options;
      if (condition.rejectsCommits) events.record({ type: 'Warning', reason, message: `since ${from}: ${condition.message}`, since: now });
      const message = `the condition ${reason}, which was noticed at ${from}, has ended`;
      events.record({ type: 'Normal', reason: `${reason}Resolved`, message, since: now });
    }
  }

  #report(condition: StorageCondition, now: number): void {
    const known = this.#lasting.get(condition.reason);
    if (known !== undefined && now - known.reportedAt < repeatMs) return;
    this.#lasting.set(condition.reason, { condition, since: known?.since ?? now, reportedAt: now });
    const { reason, message, rejectsCommits } = condition;
    if (!rejectsCommits) this.#options.events.record({ type: 'Warning', reason, message, since: now });
  }
}
