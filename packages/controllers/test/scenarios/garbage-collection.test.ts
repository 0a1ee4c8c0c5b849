import { deployments, pods, replicaSets, serviceAccounts } from '@oarlock/api/resources';
import { describe, expect, it } from 'vitest';
import { api, clock, deployment, names, reap, start, useBuiltInControllers } from '../support/built-in-controllers.ts';

useBuiltInControllers();

describe('GarbageCollector', () => {
  it('deletes dependents of a deleted owner transitively', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await api.client().delete(deployments, { namespace: 'd', name: 'web' }, { propagationPolicy: 'Background' });
    await clock.settle();
    await reap();
    expect([names(deployments), names(replicaSets), names(pods)]).toEqual([[], [], []]);
  });

  it('deletes dependents of an owner that never existed and keeps those with another owner', async () => {
    await start();
    const [owner] = api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'owner' } });
    const ref = (uid: string) => ({ apiVersion: 'v1', kind: 'ServiceAccount', name: 'owner', uid });
    await api.client().create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'd', name: 'lost', ownerReferences: [ref('nobody')] },
      spec: { containers: [{ name: 'c' }] },
    });
    await api.client().create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'd', name: 'kept', ownerReferences: [ref('nobody'), ref(owner?.metadata?.uid ?? '')] },
      spec: { containers: [{ name: 'c' }] },
    });
    await clock.settle();
    expect(names(pods)).toEqual(['kept']);
    expect(api.object(pods, { namespace: 'd', name: 'kept' })?.metadata?.ownerReferences).toHaveLength(1);
  });
});
