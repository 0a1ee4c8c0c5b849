import { describe, expect, it } from 'vitest';
import { durationHistograms, mergeHistograms, quantileMs } from '../../../src/views/plugins/metrics.ts';

const text = `# HELP a_duration_seconds x
# TYPE a_duration_seconds histogram
a_duration_seconds_bucket{le="0.1",name="x \\"y\\""} 1
a_duration_seconds_bucket{le="+Inf",name="x \\"y\\""} 4
a_duration_seconds_sum{name="x \\"y\\""} 2.5
a_duration_seconds_count{name="x \\"y\\""} 4
a_duration_seconds_bucket{le="0.1",name="z"} 6
a_duration_seconds_bucket{le="+Inf",name="z"} 6
a_duration_seconds_sum{name="z"} 0.1
a_duration_seconds_count{name="z"} 6
b_total{name="x"} 3
`;

describe('durationHistograms', () => {
  it('parses histograms with their labels', () => {
    const [first, second, ...others] = durationHistograms(text);
    expect(first).toMatchObject({ name: 'a_duration_seconds', count: 4, sum: 2.5 });
    expect(first?.buckets).toEqual([
      [0.1, 1],
      [Infinity, 4],
    ]);
    expect(second?.labels).toEqual({ name: 'z' });
    expect(others).toEqual([]);
  });
});

describe('mergeHistograms and quantileMs', () => {
  it('sum the buckets, and return the bound of a quantile', () => {
    const merged = mergeHistograms(durationHistograms(text));
    expect(merged).toMatchObject({
      count: 10,
      sum: 2.6,
      buckets: [
        [0.1, 7],
        [Infinity, 10],
      ],
    });
    expect(merged && [quantileMs(merged, 0.5), quantileMs(merged, 0.9)]).toEqual([100, Infinity]);
    expect(mergeHistograms([])).toBeUndefined();
  });
});
