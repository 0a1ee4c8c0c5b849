import type { Clock } from '@oarlock/primitives/clock';
import type { EventRecorder } from '@oarlock/spi/client';
import type { StorageCondition, StorageDriver } from '@oarlock/spi/storage';
import { controlPlaneObject } from '../hosting/plugin-health-events.ts';

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
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/**
 * Writes a Warning Event when a condition of the storage starts, and a Normal Event when it ends. If the storage rejects commits during the condition,
 * both are written at its end.
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
      if (condition.rejectsCommits) this.#record('Warning', reason, `since ${from}: ${condition.message}`);
      this.#record('Normal', `${reason}Resolved`, `the condition ${reason}, which was noticed at ${from}, has ended`);
    }
  }

  #report(condition: StorageCondition, now: number): void {
    const known = this.#lasting.get(condition.reason);
    if (known !== undefined && now - known.reportedAt < repeatMs) return;
    this.#lasting.set(condition.reason, { condition, since: known?.since ?? now, reportedAt: now });
    if (!condition.rejectsCommits) this.#record('Warning', condition.reason, condition.message);
  }

  #record(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#options.recorder.event(controlPlaneObject, type, reason, message);
  }
}
