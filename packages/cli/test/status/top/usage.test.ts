import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { readUsage } from '../../../src/status/top/usage.ts';

describe('readUsage', () => {
  it('sums the containers of a pod', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    const usage = (cpu: string, memory: string) => ({ usage: { cpu, memory } });
    api.paths.set('/apis/metrics.k8s.io/v1beta1/nodes', { items: [{ metadata: { name: 'a' }, ...usage('1500m', '1Gi') }] });
    api.paths.set('/apis/metrics.k8s.io/v1beta1/namespaces/d/pods', {
      items: [{ metadata: { namespace: 'd', name: 'web' }, containers: [usage('1m', '1Mi'), usage('2500u', '2Mi')] }],
    });
    const { nodes, pods, missing } = await readUsage(api.client(), 'd');
    expect(nodes.get('a')).toEqual({ cpuMillicores: 1500, memoryBytes: 2 ** 30 });
    expect(pods.get('d/web')).toEqual({ cpuMillicores: 4, memoryBytes: 3 * 2 ** 20 });
    expect(missing).toBeUndefined();
  });

  it('returns the reason without metrics.k8s.io', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    expect((await readUsage(api.client(), undefined)).missing).toBe('the cluster serves no metrics.k8s.io');
  });

  it('returns the figures of pods to a user who may not read those of nodes', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    const item = { metadata: { namespace: 'd', name: 'web' }, containers: [{ usage: { cpu: '5m', memory: '1Mi' } }] };
    api.paths.set('/apis/metrics.k8s.io/v1beta1/namespaces/d/pods', { items: [item] });
    const { pods, nodes, missing } = await readUsage(api.client(), 'd');
    expect(pods.get('d/web')).toEqual({ cpuMillicores: 5, memoryBytes: 2 ** 20 });
    expect([nodes.size, missing]).toEqual([0, 'the cluster serves no metrics.k8s.io']);
  });
});
