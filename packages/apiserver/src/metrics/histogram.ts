import { Counter, Histogram, type Registry } from 'prom-client';

type Labels = Readonly<Record<string, string>>;

/** One series of a metric. Observing adds numbers, without the lookup by labels that prom-client does for each value. */
export interface Observer {
  observe(value: number): void;
}

interface Row {
  readonly labels: Labels;
  /** Counts by bucket, not cumulative; the last one is that of values above all bounds. */
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

/** A histogram for hot paths: the caller resolves a series once by its labels and keeps it. */
export class PrecomputedHistogram extends Histogram {
  readonly #bounds: readonly number[];
  readonly #name: string;
  readonly #rows: Row[] = [];
  /** Supplies the metadata of the metric; has no values. */
  readonly #empty: Histogram;

  constructor({ name, help, labelNames, buckets, registry }: HistogramOptions) {
    const options = { name, help, labelNames: [...labelNames], buckets: [...buckets] };
    super({ ...options, registers: [registry] });
    this.#empty = new Histogram({ ...options, registers: [] });
    this.#bounds = buckets;
    this.#name = name;
  }

  /** Returns the series of some labels. Call it once for each set of labels. */
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

  /** Called by the registry instead of `get` if it exists. */
  getForPromString(): ReturnType<Histogram['get']> {
    return this.get();
  }
}

/** Registers a counter whose values are read from their source at each scrape. */
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
