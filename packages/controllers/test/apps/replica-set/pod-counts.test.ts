import type { Pod } from '@oarlock/api/types/core-v1';
import { pods as podResource } from '@oarlock/api/resources';
import { PodCounts } from '@oarlock/controllers/apps/replica-set/pod-counts';
import { isActive, isReady, isPodTerminating } from '@oarlock/controllers/pods/pod-state';
import { SharedIndexInformer } from '@oarlock/client/cache/shared-index-informer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const owners = ['a', 'b', undefined];
const anyPod = fc.record({
  name: fc.constantFrom('p', 'q', 'r', 's'),
  owner: fc.constantFrom(...owners),
  labels: fc.constantFrom(undefined, { app: 'x' }, { app: 'x', tier: 'y' }, { tier: 'y', app: 'x' }, { app: 'z' }),
  phase: fc.constantFrom('Pending', 'Running', 'Failed'),
  ready: fc.boolean(),
  ending: fc.boolean(),
});
type Made = typeof anyPod extends fc.Arbitrary<infer T> ? T : never;
const podOf = ({ name, owner, labels, phase, ready, ending }: Made, resourceVersion: number): Pod => ({
  metadata: {
    namespace: 'd',
    name,
    uid: name,
    resourceVersion: String(resourceVersion),
    ...(labels && { labels }),
    ...(owner !== undefined && {
      ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: owner, uid: owner, controller: true }],
    }),
    ...(ending && { deletionTimestamp: '2026-01-01T00:00:00Z' }),
  },
  status: { phase, conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
});

describe('PodCounts', () => {
  it('equals a count over all pods after any sequence of changes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(anyPod, fc.constantFrom('MODIFIED', 'MODIFIED', 'DELETED')), { maxLength: 30 }), async (steps) => {
        const informer = new SharedIndexInformer<Pod>(podResource);
        const counts = new PodCounts(informer);
        for (const [at, [pod, type]] of steps.entries())
          await informer.apply([{ type: type as 'MODIFIED' | 'DELETED', object: podOf(pod, at + 1) }]);
        for (const uid of ['a', 'b']) {
          const owned = informer.list().filter(({ metadata }) => metadata?.ownerReferences?.[0]?.uid === uid);
          const sum = { pods: 0, active: 0, ready: 0, terminating: 0, x: 0 };
          for (const group of counts.of(uid)) {
            sum.pods += group.pods;
            sum.active += group.active;
            sum.ready += group.ready;
            sum.terminating += group.terminating;
            if (group.labels['app'] === 'x') sum.x += group.pods;
          }
          expect(sum).toEqual({
            pods: owned.length,
            active: owned.filter(isActive).length,
            ready: owned.filter((pod) => isActive(pod) && isReady(pod)).length,
            terminating: owned.filter(isPodTerminating).length,
            x: owned.filter(({ metadata }) => metadata?.labels?.['app'] === 'x').length,
          });
          // the order of labels does not create another group
          expect(counts.of(uid).length).toBeLessThanOrEqual(4);
        }
      }),
    );
  });

  it('removes owners without pods', async () => {
    const informer = new SharedIndexInformer<Pod>(podResource);
    const counts = new PodCounts(informer);
    const pod = { name: 'p', owner: 'a', labels: { app: 'x' }, phase: 'Running', ready: true, ending: false } as const;
    await informer.apply([{ type: 'ADDED', object: podOf(pod, 1) }]);
    expect(counts.of('a')).toMatchObject([{ pods: 1, ready: 1 }]);
    await informer.apply([{ type: 'DELETED', object: podOf(pod, 2) }]);
    expect(counts.of('a')).toEqual([]);
  });
});
