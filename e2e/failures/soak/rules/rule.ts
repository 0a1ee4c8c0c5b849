import type { Change } from '../model/history.ts';
import type { ObjectIndex } from '../model/object-index.ts';

/** What a rule may know besides the change. */
export interface Scene {
  /** With the change in it. */
  readonly world: ObjectIndex;
  /** Uids of pods that were asked to be gone at once. */
  readonly forced: ReadonlySet<string>;
  /** Uids of pods that the eviction API was asked for. */
  readonly evicted: ReadonlySet<string>;
  /** A leader that slept or was cut off may have gone on with what it had begun, as upstream's do. */
  readonly lateLeader: boolean;
}

/** Looks at each change as it happens; what it returns are breaches, in words. */
export type Rule = (change: Change, scene: Scene) => Iterable<string>;

/** The end of a breach for which `lateLeader` is an excuse. */
export const late = ' (a leader was late)';

/** The values that something has had within the last milliseconds, the present one included: what a loop that is not up to date may still act on. */
export class Recent<T> {
  readonly #windowMs: number;
  readonly #values = new Map<string, { at: number; value: T }[]>();

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  note(key: string, value: T, at: number): void {
    const values = this.#values.get(key) ?? [];
    // the last one of before the window was still the present one at its beginning
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
  /** When it last changed. */
  since(key: string): number {
    return this.#values.get(key)?.at(-1)?.at ?? 0;
  }
}
