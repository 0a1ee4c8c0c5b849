import { pods } from '@oarlock/api/resources';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { registerKubeletMetrics } from '../../src/kubelet/kubelet-metrics.ts';
import { app, Bench, podOf, withTraits, type BenchOptions } from '../support/bench.ts';

describe('EventMetrics', () => {
  let bench: Bench;
  const start = async (options: BenchOptions = {}) => {
    bench = await new Bench(options).start();
    registerKubeletMetrics(bench.kubelet, bench.registry);
  };
  afterEach(() => bench.dispose());
  const lines = async (...expected: readonly string[]) => {
    const text = (await bench.registry.metrics()).split('\n');
    for (const line of expected) expect(text).toContain(line);
  };

  it('count started pods and containers, and passes of their workers', async () => {
    await start();
    await lines('kubelet_started_pods_total 0', 'kubelet_started_pods_errors_total 0', 'kubelet_pod_worker_start_duration_seconds_count 0');
    bench.create(podOf('web', { initContainers: [app({ name: 'sidecar', restartPolicy: 'Always' })] }));
    await bench.ready('web');
    bench.create(podOf('broken', {}, { 'simulated.oarlock.dev/fail-start': 'no such file' }));
    await bench.until('broken', () => bench.events.of('Failed').length > 0);
    const failed = bench.events.of('Failed').length;
    await lines(
      'kubelet_started_pods_total 2',
      'kubelet_started_pods_errors_total 0',
      'kubelet_started_containers_total{container_type="init_container"} 1',
      `kubelet_started_containers_total{container_type="container"} ${1 + failed}`,
      `kubelet_started_containers_errors_total{container_type="container",code="RunContainerError"} ${failed}`,
      'kubelet_pod_worker_start_duration_seconds_count 2',
      'kubelet_pod_worker_duration_seconds_count{operation_type="create"} 2',
    );
    await bench.delete('web');
    await bench.until('web', (pod) => pod === undefined);
    await bench.clock.settle();
    expect(await bench.registry.metrics()).toMatch(/kubelet_pod_worker_duration_seconds_count\{operation_type="update"\} [1-9]/);
  });

  it('observe image pulls by the size of the image', async () => {
    await start({ config: { files: true } });
    bench.create(podOf('web'));
    await bench.ready('web');
    expect(await bench.registry.metrics()).toMatch(/^kubelet_image_pull_duration_seconds_count\{image_size_in_bytes="0-10MB"\} 1$/m);
  });

  it('count evictions by their signal', async () => {
    let available = 2 ** 30;
    await start({ observe: async () => ({ 'memory.available': { available, capacity: 2 ** 30 } }) });
    bench.create(podOf('web'));
    await bench.ready('web');
    available = 0;
    await bench.until('web', (pod) => pod?.status?.reason === 'Evicted');
    await lines('kubelet_evictions{eviction_signal="memory.available"} 1');
  });

  it('count requested resizes, observe their application and report pending resizes', async () => {
    await start({ config: { capacity: { cpu: '2', memory: '4Gi' } } });
    bench.create(podOf('web', { containers: [app({ resources: { requests: { cpu: '100m' } } })] }));
    await bench.ready('web');
    const request = (cpu: string) =>
      bench.api.client().patch(pods, { namespace: 'default', name: 'web' }, 'strategic', {
        spec: { containers: [{ name: 'app', resources: { requests: { cpu, memory: '1Gi' } } }] },
      });
    await request('200m');
    await bench.clock.runUntil(() => bench.events.of('ResizeCompleted').length > 0);
    const requested = (resource: string, operation: string) =>
      `kubelet_container_requested_resizes_total{resource="${resource}",requirement="requests",operation="${operation}"} 1`;
    await lines(
      requested('cpu', 'increase'),
      requested('memory', 'add'),
      'kubelet_pod_resize_duration_milliseconds_count{success="true"} 1',
    );
    await request('64');
    await bench.clock.runUntil(() => bench.events.of('ResizeInfeasible').length > 0);
    await lines('kubelet_pod_pending_resizes{reason="infeasible"} 1');
    await request('100m');
    await bench.clock.settle();
    expect(await bench.registry.metrics()).not.toContain('kubelet_pod_pending_resizes{');
    await lines(requested('cpu', 'decrease'));
  });

  it('observe volumes of pods with files, and the sweep over orphaned pods', async () => {
    const none = {
      memoryAvailable: '0',
      diskAvailable: '0',
      inodesFree: '0',
      imageAvailable: '0',
      imageInodesFree: '0',
      pidAvailable: '0',
    };
    await start({
      wrap: (driver) => withTraits(driver, { simulated: false, networkNamespaces: true }),
      config: { files: true, evictionHard: none },
    });
    const volumeMounts = [{ name: 'tmp', mountPath: '/tmp' }];
    bench.create(podOf('web', { volumes: [{ name: 'tmp', emptyDir: {} }], containers: [app({ volumeMounts })] }));
    await vi.waitFor(() => expect(bench.pod('web')?.status?.phase).toBe('Running'), { timeout: 120_000, interval: 5 });
    const mounted = 'volume_plugin="kubernetes.io/empty-dir",operation_name="volume_mount",status="success",migrated="false"';
    await lines(
      `storage_operation_duration_seconds_count{${mounted}} 1`,
      'volume_manager_total_volumes{plugin_name="kubernetes.io/empty-dir",state="actual_state_of_world"} 1',
      'volume_manager_total_volumes{plugin_name="kubernetes.io/empty-dir",state="desired_state_of_world"} 1',
      'kubelet_orphan_pod_cleaned_volumes 0',
      'kubelet_orphan_pod_cleaned_volumes_errors 0',
    );
    expect(await bench.registry.metrics()).toMatch(/^kubelet_cgroup_version [12]$/m);
  });
});
