import { pods, replicationControllers } from '@oarlock/api/resources';
import { forbidden } from '@oarlock/api/status';
import type { Pod, ReplicationController } from '@oarlock/api/types/core-v1';
import replicationController from '@oarlock/controllers/apps/replication-controller/replication-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { isLive, simulateKubelet } from '@oarlock/testing/simulated-pods';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

const make = (replicas: number): ReplicationController => ({
  apiVersion: 'v1',
  kind: 'ReplicationController',
  metadata: { namespace: 'd', name: 'rc' },
  spec: {
    replicas,
    selector: { name: 'rc' },
    template: { metadata: { labels: { name: 'rc' } }, spec: { containers: [{ name: 'c', image: 'a:1' }] } },
  },
});
const orphan: Pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name: 'orphan', labels: { name: 'rc' } },
  spec: { containers: [{ name: 'c', image: 'a:1' }] },
};
const alive = (api: MemoryApi) => api.objects(pods, 'd').filter(isLive);
const status = (api: MemoryApi) => api.object(replicationControllers, at('rc'))?.status;

describe('ReplicationController', () => {
  it('should adopt matching pods on creation', async () => {
    const life = await runControllers([replicationController], { seed: (api) => void api.seed(pods, orphan) });
    await life.api.client().create(replicationControllers, make(1));
    await life.whenIdle();
    expect(alive(life.api).map(({ metadata }) => metadata?.name)).toEqual(['orphan']);
    expect(alive(life.api)[0]?.metadata?.ownerReferences).toMatchObject([
      { apiVersion: 'v1', kind: 'ReplicationController', name: 'rc', controller: true },
    ]);
  });

  it('should release no longer matching pods', async () => {
    const life = await runControllers([replicationController]);
    const { api } = life;
    await api.client().create(replicationControllers, make(1));
    await life.whenIdle();
    const name = alive(api)[0]?.metadata?.name ?? '';
    await api.client().patch(pods, at(name), 'merge', { metadata: { labels: { name: 'not-rc' } } });
    await life.whenIdle();
    expect(api.object(pods, at(name))?.metadata?.ownerReferences ?? []).toEqual([]);
    expect(alive(api)).toHaveLength(2);
  });

  it('should surface a failure condition on a common issue like exceeded quota', async () => {
    const life = await runControllers([replicationController]);
    const { api, clock } = life;
    const rejection = forbidden(pods, '', 'exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2');
    api.failNext({ verb: 'create', resource: pods }, rejection, 1000);
    await api.client().create(replicationControllers, make(3));
    await clock.settle();
    expect(status(api)?.conditions).toMatchObject([{ type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate' }]);
    expect(life.reasons()).toContain('FailedCreate');
    await api.client().patch(replicationControllers, at('rc'), 'merge', { spec: { replicas: 0 } });
    await clock.advance(10_000);
    expect(status(api)?.conditions ?? []).toEqual([]);
  });
});

controllerPluginContract(replicationController, [
  {
    title: 'scales from two pods to one',
    simulateOthers: simulateKubelet(),
    steps: [
      async (api) => {
        await api.client().create(replicationControllers, make(2));
      },
      async (api) => {
        await api.client().patch(replicationControllers, at('rc'), 'merge', { spec: { replicas: 1 } });
      },
    ],
    expectResult: (api) => {
      expect(alive(api)).toHaveLength(1);
      expect(status(api)).toMatchObject({ replicas: 1, readyReplicas: 1, availableReplicas: 1 });
    },
  },
]);
