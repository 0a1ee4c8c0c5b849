import type { Histogram } from '../../probes/histogram.ts';

/** One sample of a metric. `at` is the time of the sample in milliseconds since the epoch. */
export interface Sample {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
  readonly at?: number | undefined;
}

const quoted = (text: string) => text.replace(/[\\"\n]/g, (one) => (one === '\n' ? '\\n' : `\\${one}`));

/** The type, the help text and the samples of a metric. */
export interface MetricFamily {
  readonly type: 'counter' | 'gauge';
  readonly help: string;
  readonly samples: Iterable<Sample>;
}

/** Formats the metrics of one scrape in the Prometheus text format. */
export class MetricSeries {
  #text = '';

  add(name: string, { type, help, samples }: MetricFamily): void {
    let lines = '';
    for (const { labels = {}, value, at } of samples) {
      const pairs = Object.entries(labels).map(([key, text]) => `${key}="${quoted(text)}"`);
      lines += `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}${at === undefined ? '' : ` ${Math.floor(at)}`}\n`;
    }
    if (lines !== '') this.#text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines}`;
  }

  /** Adds the histograms of one metric. */
  addDistributions(
    name: string,
    help: string,
    all: Iterable<{ readonly labels: Readonly<Record<string, string>>; readonly values: Histogram }>,
  ): void {
    let lines = '';
    for (const { labels, values } of all) {
      const pairs = Object.entries(labels)
        .map(([key, text]) => `${key}="${quoted(text)}"`)
        .join(',');
      for (const [bound, count] of [...values.upTo(), ['+Inf', values.count] as const])
        lines += `${name}_bucket{${pairs},le="${bound}"} ${count}\n`;
      lines += `${name}_sum{${pairs}} ${values.sum}\n${name}_count{${pairs}} ${values.count}\n`;
    }
    if (lines !== '') this.#text += `# HELP ${name} ${help}\n# TYPE ${name} histogram\n${lines}`;
  }

  get text(): string {
    return this.#text;
  }
}
