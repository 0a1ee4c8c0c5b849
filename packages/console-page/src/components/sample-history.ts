export interface Sample {
  readonly at: number;
  readonly value: number;
}

/** The period that a plot shows, in milliseconds. */
export const plottedMs = 60 * 60 * 1000;

const maxSamples = 1000;

/** The samples of the last hour by name. They outlive the view that shows them, so that its plots continue when the user returns to it. */
export class SampleHistory {
  readonly #samples = new Map<string, readonly Sample[]>();

  /** Adds a sample. `at` is in milliseconds since the epoch. */
  add(name: string, at: number, value: number): void {
    const kept = this.of(name).filter((sample) => at - sample.at < plottedMs);
    this.#samples.set(name, [...kept.slice(1 - maxSamples), { at, value }]);
  }

  of(name: string): readonly Sample[] {
    return this.#samples.get(name) ?? [];
  }
}

const histories = new WeakMap<object, SampleHistory>();

/** Returns the history of a client, which is that of the page. */
export function historyOf(client: object): SampleHistory {
  const history = histories.get(client) ?? new SampleHistory();
  histories.set(client, history);
  return history;
}
