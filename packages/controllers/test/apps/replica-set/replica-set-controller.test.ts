import { pods, replicaSets } from '@oarlock/api/resources';
import replicaSet from '@oarlock/controllers/apps/replica-set/replica-set-controller';
import { setPodStatus } from '@oarlock/testing/simulated-pods';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

describe('ReplicaSetController', () => {
  it.each([0, 10])('counts a deleted pod as terminating until it has terminated, with minReadySeconds %i', async (minReadySeconds) => {
    const { api, clock } = await runControllers([replicaSet]);
    await api.client().create(replicaSets, {
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      metadata: { namespace: 'd', name: 's' },
      spec: {
        replicas: 1,
        minReadySeconds,
        selector: { matchLabels: { app: 'web' } },
        template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image: 'a' }] } },
      },
    });
    await clock.settle();
    const [pod] = api.objects(pods, 'd');
    const name = pod?.metadata?.name ?? '';
    const terminating = () => api.object(replicaSets, at('s'))?.status?.terminatingReplicas;
    await api.client().patch(pods, at(name), 'merge', { metadata: { finalizers: ['test/hold'] } });
    await api.client().delete(pods, at(name));
    await clock.settle();
    expect(terminating()).toBe(1);
    if (pod) await setPodStatus(api, pod, { phase: 'Succeeded' });
    await clock.settle();
    expect(terminating()).toBe(0);
  });
});
