import { Summary, type Registry } from 'prom-client';
import type { Observer } from './histogram.ts';

type Labels = Readonly<Record<string, string>>;

interface SummaryOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly registry: Registry;
}

const windowSize = 1024;
/** The default objectives of summaries in k8s.io/component-base. */
const quantiles = [0.5, 0.9, 0.99];

interface SummaryRow {
  readonly labels: Labels;
  /** Ring of the last values. */
  readonly last: Float64Array;
  count: number;
  sum: number;
}

/** A summary for hot paths. Quantiles of the last 1,024 values are computed at each scrape. */
export class PrecomputedSummary extends Summary {
  readonly #name: string;
  readonly #rows: SummaryRow[] = [];
  /** Supplies the metadata of the metric; has no values. */
  readonly #empty: Summary;

  constructor({ name, help, labelNames, registry }: SummaryOptions) {
    const options = { name, help, labelNames: [...labelNames], percentiles: quantiles };
    super({ ...options, registers: [registry] });
    this.#empty = new Summary({ ...options, registers: [] });
    this.#name = name;
  }

  /** Returns the series of some labels. Call it once for each set of labels. */
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

  /** Called by the registry instead of `get` if it exists. */
  getForPromString(): ReturnType<Summary['get']> {
    return this.get();
  }
}
