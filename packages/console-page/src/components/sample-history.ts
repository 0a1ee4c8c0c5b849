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

  /** Adds the samples of a server to those of the page, in the order of their times. */
  merge(name: string, samples: readonly Sample[]): void {
    const byTime = new Map([...samples, ...this.of(name)].map((sample) => [sample.at, sample]));
    const sorted = [...byTime.values()].sort((a, b) => a.at - b.at);
    const last = sorted.at(-1)?.at ?? 0;
    this.#samples.set(name, sorted.filter(({ at }) => last - at < plottedMs).slice(-maxSamples));
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
