import { Summary, type Registry } from 'prom-client';
import type { Observer } from '@oarlock/kernel/precomputed-metrics';

type Labels = Readonly<Record<string, string>>;

interface SummaryOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly registry: Registry;
}

const windowSize = 1024;
/** The default quantiles of summaries in k8s.io/component-base. */
const quantiles = [0.5, 0.9, 0.99];

interface SummaryRow {
  readonly labels: Labels;
  /** A ring buffer of the last values. */
  readonly last: Float64Array;
  count: number;
  sum: number;
}

/** A summary for hot paths. The quantiles of the last 1,024 values are computed at each scrape. */
export class PrecomputedSummary extends Summary {
  readonly #name: string;
  readonly #rows: SummaryRow[] = [];
  /** A summary of prom-client without values, which supplies the metadata of the metric. */
  readonly #empty: Summary;

  constructor({ name, help, labelNames, registry }: SummaryOptions) {
    const options = { name, help, labelNames: [...labelNames], percentiles: quantiles };
    super({ ...options, registers: [registry] });
    this.#empty = new Summary({ ...options, registers: [] });
    this.#name = name;
  }

  /** Returns the series of a label set. The caller should call it once per label set and keep the result. */
  series(labels: Labels): Observer {
    const row: SummaryRow = { labels, last: new Float64Array(windowSize), count: 0, sum: 0 };
    this.#rows.push(row);
    return {
      observe(value) {
        row.last[row.count++ % windowSize] = value;
        row.sum += value;
      },
    };
  }

  override async get(): ReturnType<Summary['get']> {
    const values = this.#rows.flatMap(({ labels, last, count, sum }) => {
      const sorted = last.slice(0, Math.min(count, windowSize)).sort();
      return [
        ...quantiles.map((quantile) => ({
          labels: { quantile, ...labels },
          value: sorted[Math.ceil(quantile * sorted.length) - 1] ?? NaN,
        })),
        { metricName: `${this.#name}_sum`, labels, value: sum },
        { metricName: `${this.#name}_count`, labels, value: count },
      ];
    });
    return { ...(await this.#empty.get()), values };
  }

  /** Returns the values of the metric. If this method exists, the registry calls it instead of `get`. */
  getForPromString(): ReturnType<Summary['get']> {
    return this.get();
  }
}
