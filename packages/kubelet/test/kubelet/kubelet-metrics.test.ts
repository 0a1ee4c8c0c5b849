import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { registerKubeletMetrics } from '../../src/kubelet/kubelet-metrics.ts';
import { Histogram } from '../../src/probes/histogram.ts';
import { probeMetrics } from '../../src/server/stats/resource-metrics.ts';
import { app, Bench, podOf } from '../support/bench.ts';

describe('kubelet metrics', () => {
  let bench: Bench;
  let registry: Registry;
  beforeEach(async () => {
    bench = await new Bench().start();
    registry = new Registry();
    registerKubeletMetrics(bench.kubelet, registry);
  });
  afterEach(() => bench.dispose());
  const value = async (name: string) => {
    const line = (await registry.metrics()).split('\n').find((one) => one.startsWith(`${name} `));
    return Number(line?.split(' ')[1]);
  };

  it('observe each pod start once, with and without init containers', async () => {
    expect(await value('kubelet_pod_start_sli_duration_seconds_count')).toBe(0);
    const init = app({ name: 'init', command: ['sleep', '20'] });
    const sidecar = app({ name: 'sidecar', restartPolicy: 'Always' });
    const pod = podOf('web', { initContainers: [sidecar, init] }, { 'simulated.oarlock.dev/start-delay.app': '4s' });
    const creationTimestamp = new Date(bench.clock.now() - 10_000).toISOString().replace('.000Z', 'Z');
    bench.create({ ...pod, metadata: { ...pod.metadata, creationTimestamp } });
    await bench.ready('web');
    const sums = ['', 'sli_', 'total_'].map((kind) => value(`kubelet_pod_start_${kind}duration_seconds_sum`));
    expect(await Promise.all(sums)).toEqual([24, 14, 34]);
    // a restart of a container is not a pod start
    const [found] = await bench.runtime.listContainers({ state: 'RUNNING', labels: { 'io.kubernetes.container.name': 'app' } });
    bench.runtime.finish(found?.id ?? '', 1);
    await bench.until('web', (one) => one?.status?.containerStatuses?.[0]?.restartCount === 1);
    await bench.ready('web');
    expect(await value('kubelet_pod_start_sli_duration_seconds_count')).toBe(1);
    expect(await registry.metrics()).toContain('kubelet_pod_start_sli_duration_seconds_bucket{le="20"} 1');
  });

  it('count pods and containers, anew for each scrape', async () => {
    for (const name of ['first', 'second']) {
      bench.create(podOf(name));
      await bench.ready(name);
      const count = name === 'first' ? 1 : 2;
      const text = await registry.metrics();
      expect(text).toContain(`kubelet_running_pods ${count}\n`);
      expect(text).toContain(`kubelet_running_containers{container_state="running"} ${count}\n`);
      expect(text).toContain(`kubelet_active_pods{static=""} ${count}\n`);
      expect(text).toContain(`kubelet_desired_pods{static=""} ${count}\n`);
    }
  });

  it('leave out pods that ran before the kubelet started', async () => {
    bench.create(podOf('web'));
    await bench.ready('web');
    await bench.restart();
    const later = new Registry();
    registerKubeletMetrics(bench.kubelet, later);
    await bench.clock.advance(60_000);
    expect(await later.metrics()).toContain('kubelet_pod_start_sli_duration_seconds_count 0');
  });

  it('count checks of the credentials for present images', async () => {
    const node = await new Bench({ config: { files: true } }).start();
    registry = new Registry();
    registerKubeletMetrics(node.kubelet, registry);
    for (const name of ['first', 'second']) {
      node.create(podOf(name));
      await node.ready(name);
    }
    const text = await registry.metrics();
    expect(text).toContain('kubelet_imagemanager_image_mustpull_checks_total{result="credentialRecordFound"} 1');
    expect(text).toContain('kubelet_imagemanager_ondisk_pulledrecords 1');
    expect(text).toContain('kubelet_imagemanager_ondisk_pullintents 0');
    expect(text).toContain('kubelet_imagemanager_inmemory_pullintents_usage_percent 0');
    expect(text).toContain('kubelet_imagemanager_inmemory_pulledrecords_usage_percent 0');
    const requests = (present: boolean, pull: boolean) =>
      `kubelet_image_manager_ensure_image_requests_total{pull_policy="ifnotpresent",present_locally="${present}",pull_required="${pull}"} 1`;
    expect(text).toContain(requests(false, true));
    expect(text).toContain(requests(true, false));
    await node.dispose();
  });

  it('include the durations of probes', async () => {
    const probe = { exec: { command: ['true'] }, periodSeconds: 5 };
    bench.create(podOf('web', { containers: [app({ readinessProbe: probe })] }));
    await bench.ready('web');
    await bench.clock.advance(10_000);
    const labels = 'container="app",namespace="default",pod="web",probe_type="Readiness"';
    const text = probeMetrics(bench.kubelet);
    expect(text).toContain('# TYPE prober_probe_duration_seconds histogram');
    expect(text).toContain(`prober_probe_duration_seconds_bucket{${labels},le="0.005"} 3\n`);
    expect(text).toContain(`prober_probe_duration_seconds_bucket{${labels},le="+Inf"} 3\n`);
    expect(text).toContain(`prober_probe_duration_seconds_count{${labels}} 3\n`);
    expect(text).toMatch(/^prober_probe_total\{container="app",.*result="successful"\} 3$/m);
  });

  it('use cumulative histogram buckets', () => {
    const values = new Histogram([1, 5, 10]);
    for (const one of [0.5, 1, 3, 7, 50]) values.observe(one);
    expect([...values.upTo()]).toEqual([
      [1, 2],
      [5, 3],
      [10, 4],
    ]);
    expect([values.sum, values.count]).toEqual([61.5, 5]);
  });
});
