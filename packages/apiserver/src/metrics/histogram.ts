import { Counter, Histogram, type Registry } from 'prom-client';

type Labels = Readonly<Record<string, string>>;

/** What one series has seen. Writing to it is an addition: nothing is looked up by labels, as prom-client does for each value. */
export interface Observer {
  observe(value: number): void;
}

interface Row {
  readonly labels: Labels;
  /** One more than there are bounds. Not cumulative. */
  readonly counts: Float64Array;
  sum: number;
}

interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
  readonly registry: Registry;
}

/** A histogram for paths that everything takes. Whoever observes keeps the series it was given. */
export class PrecomputedHistogram extends Histogram {
  readonly #bounds: readonly number[];
  readonly #name: string;
  readonly #rows: Row[] = [];
  /** Says of itself what this one would, and has no values of its own. */
  readonly #empty: Histogram;

  constructor({ name, help, labelNames, buckets, registry }: HistogramOptions) {
    const options = { name, help, labelNames: [...labelNames], buckets: [...buckets] };
    super({ ...options, registers: [registry] });
    this.#empty = new Histogram({ ...options, registers: [] });
    this.#bounds = buckets;
    this.#name = name;
  }

  /** To be asked for once for the same labels. */
  series(labels: Labels): Observer {
    const row: Row = { labels, counts: new Float64Array(this.#bounds.length + 1), sum: 0 };
    this.#rows.push(row);
    const bounds = this.#bounds;
    return {
      observe(value) {
        let at = 0;
        while (at < bounds.length && value > (bounds[at] as number)) at++;
        (row.counts[at] as number)++;
        row.sum += value;
      },
    };
  }

  override async get(): ReturnType<Histogram['get']> {
    const values = this.#rows.flatMap(({ labels, counts, sum }) => {
      let total = 0;
      const buckets = [...this.#bounds, '+Inf'].map((le, i) => {
        total += counts[i] as number;
        return { metricName: `${this.#name}_bucket`, labels: { le, ...labels }, value: total };
      });
      return [
        ...buckets,
        { metricName: `${this.#name}_sum`, labels, value: sum },
        { metricName: `${this.#name}_count`, labels, value: total },
      ];
    });
    return { ...(await this.#empty.get()), values };
  }

  /** What the registry asks in place of `get`, where there is one. */
  getForPromString(): ReturnType<Histogram['get']> {
    return this.get();
  }
}

/** A counter that is read from where the counting is done anyway, when somebody asks. */
export function readCounter(
  registry: Registry,
  options: { readonly name: string; readonly help: string; readonly labelNames: readonly string[] },
  read: () => Iterable<readonly [labels: Labels, value: number]>,
): void {
  registry.registerMetric(
    new Counter({
      ...options,
      labelNames: [...options.labelNames],
      registers: [],
      collect() {
        this.reset();
        for (const [labels, value] of read()) this.inc(labels, value);
      },
    }),
  );
}
