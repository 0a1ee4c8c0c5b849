import { Counter, Histogram, type Registry } from 'prom-client';

type Labels = Readonly<Record<string, string>>;

/** One series of a metric. Observing a value does not look up the labels, which prom-client does for each value. */
export interface Observer {
  observe(value: number): void;
}

interface Row {
  readonly labels: Labels;
  /** The number of values in each bucket, not cumulative. The last count is that of values above all bounds. */
  readonly counts: Float64Array;
  sum: number;
}

interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** The upper bounds of the buckets, ascending. */
  readonly buckets: readonly number[];
  readonly registry: Registry;
}

/** A histogram for hot paths. The caller resolves a series by its labels once and keeps it. */
export class PrecomputedHistogram extends Histogram {
  readonly #bounds: readonly number[];
  readonly #name: string;
  readonly #rows: Row[] = [];
  /** A histogram of prom-client without values, which supplies the metadata of the metric. */
  readonly #empty: Histogram;

  constructor({ name, help, labelNames, buckets, registry }: HistogramOptions) {
    const options = { name, help, labelNames: [...labelNames], buckets: [...buckets] };
    super({ ...options, registers: [registry] });
    this.#empty = new Histogram({ ...options, registers: [] });
    this.#bounds = buckets;
    this.#name = name;
  }

  /** Returns the series of a label set. The caller should call it once per label set and keep the result. */
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

  /** Returns the values of the metric. If this method exists, the registry calls it instead of `get`. */
  getForPromString(): ReturnType<Histogram['get']> {
    return this.get();
  }
}

/** Registers a counter whose values are read by `read` at each scrape. */
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
