import { describe, expect, it } from 'vitest';
import { mergeMetrics } from '../../src/metrics/merge-metrics.ts';

const text = (count: number, objects: number, healthy: number) => `# HELP apiserver_request_total Requests.
# TYPE apiserver_request_total counter
apiserver_request_total{verb="GET",path="a b"} ${count}

# HELP apiserver_storage_objects Objects.
# TYPE apiserver_storage_objects gauge
apiserver_storage_objects{resource="pods"} ${objects}

# HELP kubernetes_healthcheck Health.
# TYPE kubernetes_healthcheck gauge
kubernetes_healthcheck{name="ping"} ${healthy}

# HELP lag Lag.
# TYPE lag summary
lag{quantile="0.9"} ${count === 0 ? 'Nan' : count}
lag_sum ${count}

# HELP seconds Seconds.
# TYPE seconds histogram
seconds_bucket{le="+Inf"} ${count}
seconds_count ${count}
`;

describe('mergeMetrics', () => {
  it('adds counters and histograms, and keeps one value of what all processes report alike', () => {
    const merged = mergeMetrics([text(2, 7, 1), text(3, 7, 0)]).split('\n');
    expect(merged).toContain('apiserver_request_total{verb="GET",path="a b"} 5');
    expect(merged).toContain('apiserver_storage_objects{resource="pods"} 7');
    expect(merged).toContain('kubernetes_healthcheck{name="ping"} 0');
    expect(merged).toContain('seconds_bucket{le="+Inf"} 5');
    expect(merged).toContain('lag{quantile="0.9"} 3');
    expect(merged).toContain('lag_sum 5');
    expect(merged.filter((line) => line === '# TYPE seconds histogram')).toHaveLength(1);
  });

  it('ignores quantiles of a summary without values', () => {
    expect(mergeMetrics([text(0, 0, 1), text(4, 0, 1)])).toContain('lag{quantile="0.9"} 4');
  });

  it('keeps a metric that one process has, and returns only the requested names', () => {
    const own = '# HELP only Only.\n# TYPE only gauge\nonly 1\n';
    expect(mergeMetrics([text(1, 1, 1), own])).toContain('\nonly 1\n');
    expect(mergeMetrics([text(1, 1, 1), own], new Set(['only']))).toBe('# HELP only Only.\n# TYPE only gauge\nonly 1\n');
  });
});
