import type { Change } from '../model/history.ts';
import type { ObjectIndex } from '../model/object-index.ts';

/** The context of a change. */
export interface Scene {
  /** The objects, with the change applied. */
  readonly world: ObjectIndex;
  /** Uids of pods that were deleted with grace period 0. */
  readonly forced: ReadonlySet<string>;
  /** Uids of pods that were evicted through the API. */
  readonly evicted: ReadonlySet<string>;
  /** True if a stopped or disconnected leader may have continued what it had started, as upstream's do. */
  readonly lateLeader: boolean;
}

/** Checks each change as it happens; returns violations as text. */
export type Rule = (change: Change, scene: Scene) => Iterable<string>;

/** The suffix of a violation that `lateLeader` excuses. */
export const late = ' (a leader was late)';

/** The values within the last milliseconds, the present one included: what a stale controller may still act on. */
export class Recent<T> {
  readonly #windowMs: number;
  readonly #values = new Map<string, { at: number; value: T }[]>();

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  note(key: string, value: T, at: number): void {
    const values = this.#values.get(key) ?? [];
    // the last value before the window was current at its beginning
    while (values.length > 1 && (values[1]?.at ?? at) < at - this.#windowMs) values.shift();
    values.push({ at, value });
    this.#values.set(key, values);
  }
  forget(key: string): void {
    this.#values.delete(key);
  }
  of(key: string, at: number): readonly T[] {
    const values = this.#values.get(key) ?? [];
    return values
      .filter((_, index) => (values[index + 1]?.at ?? Number.POSITIVE_INFINITY) >= at - this.#windowMs)
      .map(({ value }) => value);
  }
  /** The time of the last change. */
  since(key: string): number {
    return this.#values.get(key)?.at(-1)?.at ?? 0;
  }
}
