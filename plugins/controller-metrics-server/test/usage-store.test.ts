import { parseResourceMetrics, parseSummary } from '../src/kubelet-metrics.ts';
import { UsageStore } from '../src/usage-store.ts';
import { describe, expect, it } from 'vitest';

const text = (cpu: number, at: number, start = 1) => `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="a",namespace="n",pod="p"} ${cpu} ${at}
container_memory_working_set_bytes{container="a",namespace="n",pod="p"} 4.096e+06 ${at}
container_start_time_seconds{container="a",namespace="n",pod="p"} ${start} ${at}
node_cpu_usage_seconds_total ${cpu * 10} ${at}
node_memory_working_set_bytes 1e+09 ${at}
scrape_error 0
nonsense{
`;

describe('kubelet metrics', () => {
  it('are parsed from Prometheus text', () => {
    const { node, pods } = parseResourceMetrics(text(3.5, 5000), 9000);
    expect(node).toEqual({ cpuSeconds: 35, memoryBytes: 1e9, at: 5000, startedAt: 0 });
    expect(pods.get('n/p')?.get('a')).toEqual({ cpuSeconds: 3.5, memoryBytes: 4_096_000, at: 5000, startedAt: 1000 });
  });

  it('include a pod only if all of its containers are measured', () => {
    const half = parseResourceMetrics('container_cpu_usage_seconds_total{container="a",namespace="n",pod="p"} 1 1\n', 0);
    expect(half.pods.size).toBe(0);
    expect(half.node).toBeUndefined();
  });

  it('are parsed from a summary', () => {
    const { node, pods } = parseSummary(
      {
        node: { cpu: { time: '1970-01-01T00:00:05Z', usageCoreNanoSeconds: 2e9 }, memory: { workingSetBytes: 7 } },
        pods: [
          {
            podRef: { name: 'p', namespace: 'n' },
            containers: [{ name: 'a', cpu: { usageCoreNanoSeconds: 1e9 }, memory: { workingSetBytes: 5 } }],
          },
          { podRef: { name: 'q', namespace: 'n' }, containers: [{ name: 'a' }] },
        ],
      },
      8000,
    );
    expect(node).toEqual({ cpuSeconds: 2, memoryBytes: 7, at: 5000, startedAt: 0 });
    expect([...pods.keys()]).toEqual(['n/p']);
    expect(pods.get('n/p')?.get('a')).toEqual({ cpuSeconds: 1, memoryBytes: 5, at: 8000, startedAt: 0 });
  });
});

describe('usage', () => {
  const minute = 60_000;
  const put = (store: UsageStore, cpu: number, at: number, start = 1) => store.put('k', parseResourceMetrics(text(cpu, at, start), at));

  it('requires two samples', () => {
    const store = new UsageStore();
    put(store, 100, 10 * minute);
    expect(store.pod('n/p')).toBeUndefined();
    expect(store.node('k')).toBeUndefined();
    put(store, 130, 11 * minute);
    expect(store.pod('n/p')?.get('a')).toEqual({ cores: 0.5, memoryBytes: 4_096_000, at: 11 * minute, windowMs: minute });
    expect(store.node('k')?.cores).toBe(5);
  });

  it('is measured from the start of a new or restarted container', () => {
    const store = new UsageStore();
    put(store, 5, 10 * minute, 600 - 20);
    expect(store.pod('n/p')?.get('a')).toMatchObject({ cores: 0.25, windowMs: 20_000 });
    put(store, 3, 11 * minute, 660 - 30);
    expect(store.pod('n/p')?.get('a')).toMatchObject({ cores: 0.1, windowMs: 30_000 });
  });

  it('is not computed twice from one sample, and is removed with its container', () => {
    const store = new UsageStore();
    put(store, 100, 10 * minute);
    put(store, 130, 11 * minute);
    put(store, 130, 11 * minute);
    expect(store.pod('n/p')?.get('a')?.cores).toBe(0.5);
    store.put('k', { node: undefined, pods: new Map() });
    expect(store.pod('n/p')).toBeUndefined();
    put(store, 1, 12 * minute);
    store.forget('k');
    expect(store.node('k')).toBeUndefined();
  });

  it('moves with a pod to another kubelet', () => {
    const store = new UsageStore();
    put(store, 100, 10 * minute);
    store.put('other', parseResourceMetrics(text(1, 10 * minute, 580), 10 * minute));
    store.put('k', { node: undefined, pods: new Map() });
    expect(store.pod('n/p')?.get('a')).toMatchObject({ cores: 0.05 });
  });
});
