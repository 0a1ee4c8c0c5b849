import { samplesOf } from '@oarlock/primitives/prometheus-text';

/** A histogram of Prometheus. The counts of buckets are cumulative. */
export interface Histogram {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** By upper bound in seconds; the last is infinite. */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
  readonly count: number;
  readonly sum: number;
}

const durationSample = /^(\w+_duration_seconds)_(bucket|sum|count)$/;

/** Parses the histograms of durations in the text format of Prometheus. */
export function durationHistograms(text: string): readonly Histogram[] {
  const found = new Map<
    string,
    { name: string; labels: Record<string, string>; buckets: [number, number][]; count: number; sum: number }
  >();
  for (const sample of samplesOf(text, (name) => durationSample.test(name))) {
    const [, name = '', part = ''] = durationSample.exec(sample.name) ?? [];
    const { le, ...labels } = sample.labels;
    const key = `${name}${JSON.stringify(labels)}`;
    const histogram = found.get(key) ?? { name, labels, buckets: [], count: 0, sum: 0 };
    found.set(key, histogram);
    if (part === 'bucket') histogram.buckets.push([le === '+Inf' ? Infinity : Number(le), sample.value]);
    else if (part === 'sum') histogram.sum = sample.value;
    else histogram.count = sample.value;
  }
  return [...found.values()];
}

/** Returns the sum of histograms with the same bounds; undefined without a histogram. */
export function mergeHistograms(histograms: readonly Histogram[]): Histogram | undefined {
  const [first, ...rest] = histograms;
  if (first === undefined) return undefined;
  return rest.reduce(
    (total, { buckets, count, sum }) => ({
      ...total,
      labels: {},
      buckets: total.buckets.map(([bound, value], index): readonly [number, number] => [bound, value + (buckets[index]?.[1] ?? 0)]),
      count: total.count + count,
      sum: total.sum + sum,
    }),
    first,
  );
}

/** Returns the upper bound of the bucket that contains a quantile, in milliseconds; undefined without observations. */
export function quantileMs({ buckets, count }: Histogram, quantile: number): number | undefined {
  if (count === 0) return undefined;
  return (buckets.find(([, cumulative]) => cumulative >= quantile * count)?.[0] ?? Infinity) * 1000;
}
