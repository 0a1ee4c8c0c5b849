import type { PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import type { Precondition, StorageDriver, Write } from '@oarlock/spi/storage';
import { afterEach, describe, expect, it } from 'vitest';
import { pod, rejectionOf, TestClock, TestServer } from '../../../support/pipeline-fixture.ts';

// the cases of upstream's eviction_test.go: which pods a budget protects, by its policy and status
const budgets = 'poddisruptionbudgets.policy';
const rejectionError = "Cannot evict pod as it would violate the pod's disruption budget.";

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

/**
 * `spends`: the pod is deleted and the budget decremented. `free`: the pod is deleted, the budget is unchanged. Otherwise the message of
 * the rejection.
 */
type Outcome = 'spends' | 'free' | RegExp;
const rows: readonly (readonly [what: string, pod: object, current: number, desired: number, allowed: number, Record<string, Outcome>])[] =
  [
    ['ready, no disruption allowed', healthy, 1, 1, 0, { any: /needs 1 healthy pods and has 1 currently/ }],
    ['ready, one disruption allowed', healthy, 2, 1, 1, { any: 'spends' }],
    ['not ready, enough healthy pods', unhealthy, 2, 2, 0, { any: 'free' }],
    ['not ready, more than enough healthy pods', unhealthy, 3, 2, 1, { any: 'free' }],
    ['not ready, too few healthy pods', unhealthy, 1, 2, 0, { any: /needs 2 healthy pods and has 1 currently/, AlwaysAllow: 'free' }],
    ['not ready, no pod required', unhealthy, 0, 0, 0, { any: /needs 0 healthy pods and has 0 currently/, AlwaysAllow: 'free' }],
    ['not ready, no pod required, one disruption allowed', unhealthy, 0, 0, 1, { any: 'spends', AlwaysAllow: 'free' }],
    ['without Ready condition', { phase: 'Running' }, 1, 2, 0, { any: /needs 2 healthy pods/, AlwaysAllow: 'free' }],
    ['pending', { phase: 'Pending' }, 0, 2, 0, { any: 'free' }],
    ['succeeded', { phase: 'Succeeded' }, 0, 2, 0, { any: 'free' }],
    ['failed', { phase: 'Failed' }, 0, 2, 0, { any: 'free' }],
  ];

describe.each<[string, Policy]>([
  ['no policy', undefined],
  ['IfHealthyBudget', 'IfHealthyBudget'],
  ['AlwaysAllow', 'AlwaysAllow'],
])('eviction with policy %s', (_title, policy) => {
  it.each(rows)('of a pod that is %s', async (_what, podStatus, currentHealthy, desiredHealthy, disruptionsAllowed, outcomes) => {
    await world(policy, podStatus, { currentHealthy, desiredHealthy, disruptionsAllowed });
    const outcome = outcomes[policy ?? ''] ?? outcomes['any'];
    if (outcome instanceof RegExp) {
      const { status } = await rejectionOf(evict());
      expect(status).toMatchObject({ code: 429, reason: 'TooManyRequests', message: rejectionError });
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

describe('eviction', () => {
  it('of a terminating pod ignores the budget', async () => {
    await world(undefined, healthy, { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0 });
    await server.remove('pods', 'a');
    expect(await evict()).toMatchObject({ status: 'Success' });
  });

  it.each([
    ['options', { dryRun: ['All'] }, {}],
    ['query', {}, { dryRun: 'All' }],
  ])('with dry run in the %s changes nothing, and is rejected by the same rules', async (_where, options, query) => {
    await world(undefined, healthy, { currentHealthy: 2, desiredHealthy: 1, disruptionsAllowed: 1 });
    expect(await evict(options, query)).toMatchObject({ status: 'Success' });
    expect(await isGoing()).toBe(false);
    expect(await budget()).toMatchObject({ disruptionsAllowed: 1 });
    expect(await budget()).not.toHaveProperty('disruptedPods');
    await server.patch(budgets, 'b', { status: { disruptionsAllowed: 0 } }, { subresource: 'status' });
    expect((await rejectionOf(evict(options, query))).code).toBe(429);
  });

  it('is rejected for another resourceVersion', async () => {
    await world('AlwaysAllow', unhealthy, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 });
    expect(await rejectionOf(evict({ preconditions: { resourceVersion: '1' } }))).toMatchObject({ code: 409, reason: 'Conflict' });
    expect(await isGoing()).toBe(false);
  });

  it('is rejected for another uid; the budget is decremented once', async () => {
    const preconditions = { uid: 'another' };
    await world(undefined, healthy, { currentHealthy: 3, desiredHealthy: 1, disruptionsAllowed: 2 });
    expect(await rejectionOf(evict({ preconditions }))).toMatchObject({ code: 409, reason: 'Conflict' });
    expect(await budget()).toMatchObject({ disruptionsAllowed: 1 });
    await server.patch('pods', 'a', { status: unhealthy }, { subresource: 'status' });
    expect(await rejectionOf(evict({ preconditions }))).toMatchObject({ code: 429, status: { details: { retryAfterSeconds: 10 } } });
    expect(await isGoing()).toBe(false);
  });

  it('with the current resourceVersion deletes the pod with the requested grace period', async () => {
    await world('AlwaysAllow', unhealthy, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 });
    const { metadata } = await server.get('pods', 'a');
    const { uid, resourceVersion } = metadata ?? {};
    await evict({ preconditions: { uid, resourceVersion }, gracePeriodSeconds: 7 });
    expect((await server.get('pods', 'a')).metadata?.deletionGracePeriodSeconds).toBe(7);
  });

  it('is rejected by a budget with negative disruptionsAllowed or too many disruptedPods', async () => {
    await world(undefined, healthy, { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 1 });
    const disruptedPods = Object.fromEntries(Array.from({ length: 2001 }, (_, i) => [`p${i}`, '2026-01-01T00:00:00Z']));
    await server.patch(budgets, 'b', { status: { disruptedPods } }, { subresource: 'status' });
    expect(await rejectionOf(evict())).toMatchObject({
      code: 403,
      message: expect.stringContaining('DisruptedPods map too big - too many evictions not confirmed by PDB controller') as string,
    });
  });

  it('ignores budgets with another or an empty selector', async () => {
    await world(undefined, healthy, { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0 });
    await server.patch('pods', 'a', { metadata: { labels: { app: 'y' } } });
    expect(await evict()).toMatchObject({ status: 'Success' });
  });

  /** Changes the pod before the next `times` writes. */
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

  it('of an unready pod that changes concurrently is rejected with retryAfterSeconds', async () => {
    const storage = new Raced({ clock: new TestClock() });
    await world('AlwaysAllow', unhealthy, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 }, storage);
    storage.times = 1;
    const { status } = await rejectionOf(evict());
    expect(status).toMatchObject({ code: 429, details: { retryAfterSeconds: 10 } });
    expect(status.details?.causes?.[0]?.message).toBe('The disruption budget b is still being processed by the server.');
    expect(await evict()).toMatchObject({ status: 'Success' });
  });

  it('of a pending pod that changes concurrently is retried', async () => {
    const storage = new Raced({ clock: new TestClock() });
    await world(undefined, { phase: 'Pending' }, { currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0 }, storage);
    storage.times = 1;
    expect(await evict()).toMatchObject({ status: 'Success' });
    expect(await isGoing()).toBe(true);
  });
});
