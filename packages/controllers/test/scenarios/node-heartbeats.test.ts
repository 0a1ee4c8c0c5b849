import { leases, nodes, pods } from '@oarlock/api/resources';
import { describe, expect, it } from 'vitest';
import { api, clock, start, useBuiltInControllers } from '../support/built-in-controllers.ts';

useBuiltInControllers();

describe('node controllers', () => {
  const lease = (at: number) => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace: 'kube-node-lease', name: 'n' },
    spec: { holderIdentity: 'n', renewTime: new Date(at).toISOString() },
  });

  it('taint an unreachable node, mark its pods not ready, and undo it after a heartbeat', async () => {
    api.seed(nodes, { metadata: { name: 'n' }, status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    api.seed(leases, lease(clock.now()));
    api.seed(pods, {
      metadata: { namespace: 'd', name: 'p' },
      spec: { nodeName: 'n', containers: [{ name: 'c' }] },
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
    });
    // a node with heartbeats: in a fully disrupted cluster nothing is evicted
    api.seed(nodes, { metadata: { name: 'm' }, status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    const other = { ...lease(clock.now()), metadata: { namespace: 'kube-node-lease', name: 'm' } };
    api.seed(leases, other);
    await start();
    await clock.advance(49_000);
    expect(api.object(nodes, { name: 'n' })?.spec?.taints).toBeUndefined();
    await api.client().patch(leases, other.metadata, 'merge', { spec: { renewTime: new Date(clock.now()).toISOString() } });
    await clock.advance(2_000);
    expect(api.object(nodes, { name: 'n' })?.status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'Unknown',
      reason: 'NodeStatusUnknown',
      message: 'Kubelet stopped posting node status.',
    });
    expect(api.object(nodes, { name: 'n' })?.spec?.taints?.map(({ key, effect }) => `${key}:${effect}`)).toEqual([
      'node.kubernetes.io/unreachable:NoSchedule',
      'node.kubernetes.io/unreachable:NoExecute',
    ]);
    expect(api.object(pods, { namespace: 'd', name: 'p' })?.status?.conditions?.[0]).toMatchObject({ type: 'Ready', status: 'False' });
    const client = api.client();
    await client.update(leases, { ...(await client.get(leases, { namespace: 'kube-node-lease', name: 'n' })), ...lease(clock.now()) });
    const node = await client.get(nodes, { name: 'n' });
    await client.update(nodes, { ...node, status: { conditions: [{ type: 'Ready', status: 'True' }] } }, { subresource: 'status' });
    await clock.settle();
    expect(api.object(nodes, { name: 'n' })?.spec?.taints ?? []).toEqual([]);
  });

  it('allocate a distinct pod CIDR to each node', async () => {
    await start();
    for (const name of ['a', 'b', 'c']) await api.client().create(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name } });
    await clock.settle();
    expect(
      api
        .objects(nodes)
        .map(({ spec }) => spec?.podCIDR)
        .sort(),
    ).toEqual(['10.244.0.0/24', '10.244.1.0/24', '10.244.2.0/24']);
  });
});
