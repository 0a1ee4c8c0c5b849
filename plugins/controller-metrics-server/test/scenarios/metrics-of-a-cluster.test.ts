import { apiServices, deployments, horizontalPodAutoscalers, services } from '@oarlock/api/resources';
import type { Deployment } from '@oarlock/api/types/apps-v1';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { httpClient } from '@oarlock/client/http/client';
import type { Client } from '@oarlock/spi/client';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { request } from 'node:https';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const labels = { app: 'busy' };
const busy = (millicores: number, replicas?: number): Deployment => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'default', name: 'busy' },
  spec: {
    ...(replicas !== undefined && { replicas }),
    selector: { matchLabels: labels },
    template: {
      metadata: { labels, annotations: { 'simulated.oarlock.dev/cpu-millicores': String(millicores) } },
      spec: { containers: [{ name: 'main', image: 'busy', resources: { requests: { cpu: '100m' } } }] },
    },
  },
});
const items = async (client: Client, path: string) =>
  ((await client.raw('GET', path)) as { items: { metadata: { name: string } }[] }).items;

describe('metrics of a cluster with simulated nodes', () => {
  let cluster: TestCluster;
  let remote: ReturnType<typeof httpClient>;
  beforeAll(async () => {
    cluster = await startCluster({
      roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
      spec: {
        storage: 'storage-memory',
        runtimes: ['runtime-simulated'],
        controllers: [
          { use: 'controller-metrics-server', config: { resolutionSeconds: 1 } },
          {
            use: 'controller-horizontal-pod-autoscaler',
            config: { syncPeriodSeconds: 1, initialReadinessSeconds: 0, cpuInitializationSeconds: 0 },
          },
        ],
        settings: { kubelet: { nodeName: 'node', count: 3, port: 0 } },
      },
    });
    // no kubeconfig contains the automatically selected port
    const { spec } = await cluster.client.get(services, { namespace: 'default', name: 'kubernetes' });
    const { options } = await loadKubeconfig(cluster.kubeconfig);
    remote = httpClient({ ...options, server: `https://127.0.0.1:${spec?.ports?.[0]?.targetPort}` });
  });
  afterAll(async () => {
    remote?.close();
    await cluster?.stop();
  });

  it('are served over HTTPS and in process, and drive autoscalers up and down', async () => {
    const { client } = cluster;
    await client.create(deployments, busy(150, 2));
    await client.create(horizontalPodAutoscalers, {
      apiVersion: 'autoscaling/v2',
      kind: 'HorizontalPodAutoscaler',
      metadata: { namespace: 'default', name: 'busy' },
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'busy' },
        minReplicas: 1,
        maxReplicas: 5,
        metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 100 } } }],
        behavior: { scaleDown: { stabilizationWindowSeconds: 0 } },
      },
    });
    const replicas = async () => (await client.get(deployments, { namespace: 'default', name: 'busy' })).spec?.replicas;
    await expect.poll(replicas, { timeout: 120_000, interval: 200 }).toBe(5);
    for (const each of [client, remote]) {
      expect((await items(each, '/apis/metrics.k8s.io/v1beta1/nodes')).map(({ metadata }) => metadata.name).sort()).toEqual([
        'node-0',
        'node-1',
        'node-2',
      ]);
      expect((await items(each, '/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dbusy')).length).toBeGreaterThan(
        1,
      );
      await expect(each.raw('GET', '/apis/metrics.k8s.io/v1beta1/nodes/none')).rejects.toMatchObject({ code: 404 });
    }
    const discovered = (await remote.raw('GET', '/apis')) as { groups: { name: string }[] };
    expect(discovered.groups.map(({ name }) => name)).toContain('metrics.k8s.io');
    await client.patch(deployments, { namespace: 'default', name: 'busy' }, 'strategic', { spec: { template: busy(10).spec?.template } });
    await expect.poll(replicas, { timeout: 120_000, interval: 200 }).toBe(1);
  });

  it('are served only to the API server', async () => {
    const { spec } = await cluster.client.get(apiServices, { name: 'v1beta1.metrics.k8s.io' });
    const code = await new Promise((resolve, reject) => {
      const call = request(
        { host: '127.0.0.1', port: spec?.service?.port, path: '/apis/metrics.k8s.io/v1beta1/nodes', rejectUnauthorized: false },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      );
      call.once('error', reject);
      call.end();
    });
    expect(code).toBe(401);
  });
});
