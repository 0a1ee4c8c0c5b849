import type { PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import type { Precondition, StorageDriver, Write } from '@oarlock/spi/storage';
import { afterEach, describe, expect, it } from 'vitest';
import { pod, refusal, TestClock, TestServer } from '../../support/pipeline-fixture.ts';

// the branches of upstream's eviction_test.go: which pods a budget guards, by its policy and by how it stands
const budgets = 'poddisruptionbudgets.policy';
const refused = "Cannot evict pod as it would violate the pod's disruption budget.";

let server: TestServer;
afterEach(() => server.stop());

type Policy = 'IfHealthyBudget' | 'AlwaysAllow' | undefined;
const unhealthy = { phase: 'Running', conditions: [{ type: 'Ready', status: 'False' }] };
const healthy = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };

async function world(
  policy: Policy,
  podStatus: object,
  {
    currentHealthy,
    desiredHealthy,
    disruptionsAllowed,
    ...more
  }: { currentHealthy: number; desiredHealthy: number; disruptionsAllowed: number; disruptedPods?: object },
  storage?: StorageDriver,
): Promise<void> {
  server = await TestServer.start({ ...(storage && { storage }) });
  await server.create('pods', pod('a', { nodeName: 'n' }, { labels: { app: 'x' } }));
  await server.patch('pods', 'a', { status: podStatus }, { subresource: 'status' });
  await server.create(budgets, {
    kind: 'PodDisruptionBudget',
    apiVersion: 'policy/v1',
    metadata: { name: 'b' },
    ...{
      spec: {
        minAvailable: desiredHealthy,
        selector: { matchLabels: { app: 'x' } },
        ...(policy !== undefined && { unhealthyPodEvictionPolicy: policy }),
      },
    },
  });
  const status = { observedGeneration: 1, currentHealthy, desiredHealthy, expectedPods: 3, disruptionsAllowed, ...more };
  await server.patch(budgets, 'b', { status }, { subresource: 'status' });
}
const evict = (deleteOptions: object = {}, query: Record<string, string> = {}) =>
  server.create(
    'pods',
    { kind: 'Eviction', apiVersion: 'policy/v1', metadata: { name: 'a' }, ...{ deleteOptions } },
    { subresource: 'eviction', name: 'a', query },
  );
const isGoing = async () => {
  const { items } = await server.list('pods');
  return items.every(({ object }) => object.metadata?.deletionTimestamp !== undefined);
};
const budget = async () => ((await server.get(budgets, 'b')) as PodDisruptionBudget).status;

/** `spends`: it goes, and the budget pays. `free`: it goes, and the budget does not. Else what the refusal says. */
type Outcome = 'spends' | 'free' | RegExp;
const rows: readonly (readonly [what: string, pod: object, current: number, desired: number, allowed: number, Record<string, Outcome>])[] =
  [
    ['ready, nothing to spare', healthy, 1, 1, 0, { any: /needs 1 healthy pods and has 1 currently/ }],
    ['ready, one to spare', healthy, 2, 1, 1, { any: 'spends' }],
    ['not ready, and enough others are', unhealthy, 2, 2, 0, { any: 'free' }],
    ['not ready, and more than enough others are', unhealthy, 3, 2, 1, { any: 'free' }],
    ['not ready, as too many others', unhealthy, 1, 2, 0, { any: /needs 2 healthy pods and has 1 currently/, AlwaysAllow: 'free' }],
    ['not ready, where none has to be', unhealthy, 0, 0, 0, { any: /needs 0 healthy pods and has 0 currently/, AlwaysAllow: 'free' }],
    ['not ready, where none has to be and one may go', unhealthy, 0, 0, 1, { any: 'spends', AlwaysAllow: 'free' }],
    ['of no known health', { phase: 'Running' }, 1, 2, 0, { any: /needs 2 healthy pods/, AlwaysAllow: 'free' }],
    ['pending', { phase: 'Pending' }, 0, 2, 0, { any: 'free' }],
    ['succeeded', { phase: 'Succeeded' }, 0, 2, 0, { any: 'free' }],
    ['failed', { phase: 'Failed' }, 0, 2, 0, { any: 'free' }],
  ];

describe.each<[string, Policy]>([
  ['no policy', undefined],
  ['IfHealthyBudget', 'IfHealthyBudget'],
  ['AlwaysAllow', 'AlwaysAllow'],
])('an eviction under %s', (_title, policy) => {
  it.each(rows)('of a pod that is %s', async (_what, podStatus, currentHealthy, desiredHealthy, disruptionsAllowed, outcomes) => {
    await world(policy, podStatus, { currentHealthy, desiredHealthy, disruptionsAllowed });
    const outcome = outcomes[policy ?? ''] ?? outcomes['any'];
    if (outcome instanceof RegExp) {
      const { status } = await refusal(evict());
      expect(status).toMatchObject({ code: 429, reason: 'TooManyRequests', message: refused });
      expect(status.details?.causes).toEqual([{ reason: 'DisruptionBudget', message: expect.stringMatching(outcome) as string }]);
      expect(status.details).not.toHaveProperty('retryAfterSeconds');
      expect(await isGoing()).toBe(false);
    } else {
      expect(await evict()).toMatchObject({ status: 'Success' });
      expect(await isGoing()).toBe(true);
    }
    const spent = outcome === 'spends';
    expect(await budget()).toMatchObject({ disruptionsAllowed: disruptionsAllowed - (spent ? 1 : 0) });
    expect(Object.keys((await budget())?.disruptedPods ?? {})).toEqual(spent ? ['a'] : []);
  });
});

describe('an eviction', () => {
  it('of a pod that goes already asks nobody', async () => {
    await world(undefined, healthy, { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0 });
    await server.remove('pods', 'a');
    expect(await evict()).toMatchObject({ status: 'Success' });
  });

  it.each([
    ['in its options', { dryRun: ['All'] }, {}],
    ['in its query', {}, { dryRun: 'All' }],
  ])('that is a dry run %s changes nothing, and is refused all the same', async (_where, options, query) => {
    await world(undefined, healthy, { currentHealthy: 2, desiredHealthy: 1, disruptionsAllowed: 1 });
    expect(await evict(options, query)).toMatchObject({ status: 'Success' });
    expect(await isGoing()).toBe(false);
    expect(await budget()).toMatchObject({ disruptionsAllowed: 1 });
    expect(await budget()).not.toHaveProperty('disruptedPods');
    await server.patch(budgets, 'b', { status: { disruptionsAllowed: 0 } }, { subresource: 'status' });
    expect((await refusal(evict(options, query))).code).toBe(429);
  });

  it('of another version than the pod has is refused', async () => {
    await world('AlwaysAllow', unhealthy, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 });
    expect(await refusal(evict({ preconditions: { resourceVersion: '1' } }))).toMatchObject({ code: 409, reason: 'Conflict' });
    expect(await isGoing()).toBe(false);
  });

  it('of another pod of that name is refused: where a budget pays, it pays once', async () => {
    const preconditions = { uid: 'another' };
    await world(undefined, healthy, { currentHealthy: 3, desiredHealthy: 1, disruptionsAllowed: 2 });
    expect(await refusal(evict({ preconditions }))).toMatchObject({ code: 409, reason: 'Conflict' });
    expect(await budget()).toMatchObject({ disruptionsAllowed: 1 });
    await server.patch('pods', 'a', { status: unhealthy }, { subresource: 'status' });
    expect(await refusal(evict({ preconditions }))).toMatchObject({ code: 429, status: { details: { retryAfterSeconds: 10 } } });
    expect(await isGoing()).toBe(false);
  });

  it('of the version that the pod has is done, with the grace that was asked for', async () => {
    await world('AlwaysAllow', unhealthy, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 });
    const { metadata } = await server.get('pods', 'a');
    const { uid, resourceVersion } = metadata ?? {};
    await evict({ preconditions: { uid, resourceVersion }, gracePeriodSeconds: 7 });
    expect((await server.get('pods', 'a')).metadata?.deletionGracePeriodSeconds).toBe(7);
  });

  it('is refused by a budget that says less than nothing, or waits for too many', async () => {
    await world(undefined, healthy, { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 1 });
    const disruptedPods = Object.fromEntries(Array.from({ length: 2001 }, (_, i) => [`p${i}`, '2026-01-01T00:00:00Z']));
    await server.patch(budgets, 'b', { status: { disruptedPods } }, { subresource: 'status' });
    expect(await refusal(evict())).toMatchObject({
      code: 403,
      message: expect.stringContaining('DisruptedPods map too big - too many evictions not confirmed by PDB controller') as string,
    });
  });

  it('asks no budget that is for others, or that selects nothing', async () => {
    await world(undefined, healthy, { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0 });
    await server.patch('pods', 'a', { metadata: { labels: { app: 'y' } } });
    expect(await evict()).toMatchObject({ status: 'Success' });
  });

  /** Somebody changes the pod each time it is about to be written, `times` times. */
  class Raced extends MemoryStorage {
    times = 0;
    override async commit(writes: readonly Write[], expected: readonly Precondition[]) {
      if (this.times > 0 && writes.some(({ key }) => key.includes('/pods/'))) {
        this.times -= 1;
        await server.patch('pods', 'a', { metadata: { annotations: { raced: String(this.times) } } });
      }
      return super.commit(writes, expected);
    }
  }

  it('of a pod that is not ready and changes meanwhile looks again, and tells its client to come back', async () => {
    const storage = new Raced({ clock: new TestClock() });
    await world('AlwaysAllow', unhealthy, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 }, storage);
    storage.times = 1;
    const { status } = await refusal(evict());
    expect(status).toMatchObject({ code: 429, details: { retryAfterSeconds: 10 } });
    expect(status.details?.causes?.[0]?.message).toBe('The disruption budget b is still being processed by the server.');
    expect(await evict()).toMatchObject({ status: 'Success' });
  });

  it('of a pending pod that changes meanwhile is tried again', async () => {
    const storage = new Raced({ clock: new TestClock() });
    await world(undefined, { phase: 'Pending' }, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 }, storage);
    storage.times = 1;
    expect(await evict()).toMatchObject({ status: 'Success' });
    expect(await isGoing()).toBe(true);
  });
});
