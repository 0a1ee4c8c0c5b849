import type { Pod } from '@oarlock/api/types/core-v1';
import { deletionOrder } from '@oarlock/controllers/apps/replica-set/deletion-order';
import { describe, expect, it } from 'vitest';

const now = Date.UTC(2026, 0, 2);
const ago = (seconds: number) => new Date(now - seconds * 1000).toISOString();
interface Traits {
  readonly node?: string;
  readonly phase?: string;
  readonly readySince?: number;
  readonly cost?: string;
  readonly restarts?: number;
  readonly sidecarRestarts?: number;
  readonly age?: number;
}
const pod = (
  uid: string,
  { node = 'n', phase = 'Running', readySince, cost, restarts = 0, sidecarRestarts = 0, age = 100 }: Traits,
): Pod => ({
  metadata: {
    uid,
    creationTimestamp: ago(age),
    ...(cost !== undefined && { annotations: { 'controller.kubernetes.io/pod-deletion-cost': cost } }),
  },
  spec: { ...(node !== '' && { nodeName: node }), containers: [{ name: 'c' }], initContainers: [{ name: 's', restartPolicy: 'Always' }] },
  status: {
    phase,
    ...(readySince !== undefined && { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: ago(readySince) }] }),
    containerStatuses: [{ name: 'c', restartCount: restarts, image: '', imageID: '', ready: true }],
    initContainerStatuses: [{ name: 's', restartCount: sidecarRestarts, image: '', imageID: '', ready: true }],
  },
});
/** Returns the uids of pods in the order of their deletion. */
const order = (first: Traits, second: Traits, peers: Readonly<Record<string, number>> = {}) =>
  deletionOrder([pod('b', first), pod('a', second)], { peersOnNode: new Map(Object.entries(peers)), nowMs: now }).map(
    ({ metadata }) => metadata?.uid,
  );

describe('deletionOrder', () => {
  // the first pod of each row is deleted first
  it.each<[string, Traits, Traits, Readonly<Record<string, number>>?]>([
    ['unassigned pods', { node: '' }, {}],
    ['pending pods', { phase: 'Pending' }, {}],
    ['pods that are not ready', {}, { readySince: 50 }],
    ['pods with a lower deletion cost', { readySince: 50, cost: '-1' }, { readySince: 1 }],
    ['pods with more peers on their node', { node: 'full' }, {}, { full: 2, n: 1 }],
    ['pods that are ready for a shorter time', { readySince: 10 }, { readySince: 5000 }],
    ['pods with more restarts, if they became ready at the same time', { readySince: 10, restarts: 2 }, { readySince: 10 }],
    ['pods with more restarts of sidecars', { readySince: 10, sidecarRestarts: 2 }, { readySince: 10 }],
    ['younger pods', { age: 10 }, { age: 5000 }],
  ])('prefers %s', (_, first, second, peers) => expect(order(first, second, peers)).toEqual(['b', 'a']));

  it('decides between pods of a similar age by the uid, before it compares restarts', () => {
    expect(order({ readySince: 5000, restarts: 9 }, { readySince: 5001 })).toEqual(['a', 'b']);
    expect(order({ age: 5000 }, { age: 5001 })).toEqual(['a', 'b']);
  });

  it('ignores the deletion cost without the feature gate PodDeletionCost', () => {
    const cheap = pod('a', { readySince: 50, cost: '-1' });
    const uids = (hasCosts: boolean) =>
      deletionOrder([cheap, pod('b', { readySince: 1 })], { peersOnNode: new Map(), nowMs: now, hasCosts }).map(
        ({ metadata }) => metadata?.uid,
      );
    expect(uids(true)).toEqual(['a', 'b']);
    expect(uids(false)).toEqual(['b', 'a']);
  });

  it('ignores a deletion cost that is not a number', () => {
    expect(order({ cost: 'x', restarts: 1 }, { cost: '0' })).toEqual(['b', 'a']);
  });

  it.each<[string, Traits, Traits]>([
    ['ignores the deletion cost', { readySince: 10, cost: '1' }, { readySince: 20 }],
    ['compares similar times of readiness', { readySince: 5000 }, { readySince: 5001 }],
    ['compares similar ages', { age: 5000 }, { age: 5001 }],
  ])('of a Job %s', (_, first, second) => {
    expect(deletionOrder([pod('b', first), pod('a', second)]).map(({ metadata }) => metadata?.uid)).toEqual(['b', 'a']);
  });
});
