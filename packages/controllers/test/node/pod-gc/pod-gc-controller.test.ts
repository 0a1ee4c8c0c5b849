import { nodes, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import podGc from '@oarlock/controllers/node/pod-gc/pod-gc-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import { describe, expect, it } from 'vitest';
import { at, runControllers, named } from '../../support/running-controllers.ts';

const pod = (name: string, nodeName: string | undefined, finalizers: readonly string[] = []): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name, finalizers },
  spec: { ...(nodeName !== undefined && { nodeName }), containers: [{ name: 'c', image: 'a' }] },
  status: { phase: 'Running' },
});
const plain = { defaults: false };

describe('PodGcController', () => {
  it('deletes pods of a missing node and sets the reason', async () => {
    const { api, clock } = await runControllers([podGc], {
      ...plain,
      seed: (memory) => void memory.seed(pods, pod('lost', 'gone', ['test/hold'])),
    });
    await clock.advance(39_000);
    expect(api.object(pods, at('lost'))?.metadata?.deletionTimestamp).toBeUndefined();
    await clock.advance(1_000);
    expect(api.object(pods, at('lost'))).toMatchObject({
      metadata: { deletionGracePeriodSeconds: 0 },
      status: {
        phase: 'Failed',
        observedGeneration: 1,
        conditions: [
          { type: 'DisruptionTarget', observedGeneration: 1, reason: 'DeletionByPodGC', message: 'PodGC: node no longer exists' },
        ],
      },
    });
  });

  it('deletes a terminating pod that was never scheduled, so that its Job can count it', async () => {
    const { api, clock } = await runControllers([podGc], {
      ...plain,
      seed: (memory) => void memory.seed(pods, pod('nowhere', undefined, ['batch.kubernetes.io/job-tracking'])),
    });
    await api.client().delete(pods, at('nowhere'));
    await clock.settle();
    expect(api.object(pods, at('nowhere'))?.status?.phase).toBe('Failed');
  });

  it('deletes terminating pods of a node that is out of service', async () => {
    const { api, clock } = await runControllers([podGc], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, {
          apiVersion: 'v1',
          kind: 'Node',
          metadata: { name: 'n' },
          spec: {},
          status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
        });
        memory.seed(pods, pod('ending', 'n'), pod('staying', 'n'));
      },
    });
    await api.client().delete(pods, at('ending'));
    await clock.settle();
    expect(named(api.objects(pods, 'd'))).toEqual(['ending', 'staying']);
    await api
      .client()
      .patch(nodes, { name: 'n' }, 'merge', { spec: { taints: [{ key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' }] } });
    await clock.settle();
    expect(named(api.objects(pods, 'd'))).toEqual(['staying']);
  });

  it.each([
    ['the newest terminated pods up to the threshold, and no evicted pod before them', 2, ['c', 'd']],
    ['the pod with the later name of pods of the same age', 1, ['d']],
    ['all terminated pods if the threshold is 0', 0, ['a', 'b', 'c', 'd', 'evicted']],
  ])('keeps %s', async (_case, terminatedPodThreshold, kept) => {
    const done = (name: string, day: number, status: Pod['status'] = { phase: 'Succeeded' }): Pod => ({
      ...pod(name, 'n'),
      metadata: { namespace: 'd', name, creationTimestamp: `2025-01-0${day}T00:00:00Z` },
      status,
    });
    const { api } = await runControllers([podGc], {
      ...plain,
      options: { config: { terminatedPodThreshold } },
      seed: (memory) => {
        memory.seed(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } });
        memory.seed(
          pods,
          done('evicted', 5, { phase: 'Failed', reason: 'Evicted' }),
          done('d', 3),
          done('a', 1),
          done('b', 2),
          done('c', 3),
        );
      },
    });
    expect(named(api.objects(pods, 'd'))).toEqual(kept);
  });
});

controllerPluginContract(podGc, [
  {
    title: 'deletes pods of a missing node and a pod that was never scheduled',
    steps: [
      (api) => void api.seed(pods, pod('a', 'gone'), pod('b', 'gone'), pod('c', undefined, ['test/hold'])),
      async (api) => {
        await api.client().delete(pods, at('c'));
      },
    ],
    expectResult: (api) => {
      expect(named(api.objects(pods, 'd'))).toEqual(['c']);
      expect(api.object(pods, at('c'))?.status?.phase).toBe('Failed');
    },
  },
]);
