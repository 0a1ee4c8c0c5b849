import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { parseTime } from '@oarlock/api/values/time';

/** The annotation with the time of the change that an EndpointSlice results from. */
const triggerAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';
/** Maximum number of changes of a Service that wait for an apply; further ones are not measured. */
const maxPending = 100;

/** The times of changes of endpoints that the rules do not contain yet, by Service (upstream's EndpointsChangeTracker). */
export class TriggerTimes {
  readonly #startedAt: number;
  readonly #pending = new Map<string, Map<string, number>>();

  /** @param startedAt milliseconds since the epoch; changes before it are not measured */
  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  /** Remembers the change that an added or updated EndpointSlice results from. The time has a resolution of a second or better. */
  add(key: string, { metadata }: EndpointSlice): void {
    const text = metadata?.annotations?.[triggerAnnotation];
    const at = text === undefined ? undefined : parseTime(text);
    if (text === undefined || at === undefined || at < this.#startedAt) return;
    const pending = this.#pending.get(key) ?? new Map<string, number>();
    this.#pending.set(key, pending);
    if (pending.size < maxPending) pending.set(`${metadata?.name} ${text}`, at);
  }

  /** Removes the changes of the Services and returns their times, in milliseconds since the epoch. */
  take(keys: Iterable<string>): readonly number[] {
    const times: number[] = [];
    for (const key of keys) {
      times.push(...(this.#pending.get(key)?.values() ?? []));
      this.#pending.delete(key);
    }
    return times;
  }
}
