import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pod, rejectionOf, TestServer } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());
describe('eviction', () => {
  const evict = (name: string, deleteOptions: object = {}) =>
    server.create(
      'pods',
      { kind: 'Eviction', apiVersion: 'policy/v1', metadata: { name }, ...{ deleteOptions } },
      { subresource: 'eviction', name },
    );
  const running = async (name: string, ready = true) => {
    await server.create('pods', pod(name, { nodeName: 'n' }, { labels: { app: 'x' } }));
    await server.patch(
      'pods',
      name,
      { status: { phase: 'Running', conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] } },
      { subresource: 'status' },
    );
  };
  const budget = async (status: object, spec: object = {}, name = 'b') => {
    await server.create('poddisruptionbudgets.policy', {
      kind: 'PodDisruptionBudget',
      apiVersion: 'policy/v1',
      metadata: { name },
      ...{ spec: { minAvailable: 1, selector: { matchLabels: { app: 'x' } }, ...spec } },
    });
    await server.patch(
      'poddisruptionbudgets.policy',
      name,
      { status: { observedGeneration: 1, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, disruptionsAllowed: 0, ...status } },
      { subresource: 'status' },
    );
  };

  it('deletes the pod and sets its DisruptionTarget condition', async () => {
    await running('a');
    expect(await evict('a')).toMatchObject({ status: 'Success' });
    expect(await server.get('pods', 'a')).toMatchObject({
      metadata: { deletionGracePeriodSeconds: 30 },
      status: {
        conditions: [
          { type: 'Ready' },
          { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI', message: 'Eviction API: evicting' },
        ],
      },
    });
  });

  it('names the precondition that the pod does not meet', async () => {
    await running('a');
    const { uid, resourceVersion } = (await server.get('pods', 'a')).metadata ?? {};
    const message = async (preconditions: object) => (await rejectionOf(evict('a', { preconditions }))).message;
    expect(await message({ uid: 'x' })).toBe(
      `Operation cannot be fulfilled on Pod "a": the UID in the precondition (x) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
    );
    expect(await message({ uid, resourceVersion: '1' })).toBe(
      `Operation cannot be fulfilled on Pod "a": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`,
    );
  });

  it('accepts policy/v1beta1, which older clients send, and no other version', async () => {
    await running('a');
    const send = (apiVersion: string) =>
      server.create('pods', { kind: 'Eviction', apiVersion, metadata: { name: 'a' } }, { subresource: 'eviction', name: 'a' });
    expect((await rejectionOf(send('policy/v1alpha1'))).status.code).toBe(400);
    expect(await send('policy/v1beta1')).toMatchObject({ status: 'Success' });
    expect((await server.get('pods', 'a')).metadata?.deletionTimestamp).toBeDefined();
  });

  it('is rejected if the budget allows no disruption', async () => {
    await running('a');
    await budget({});
    expect((await rejectionOf(evict('a'))).status).toMatchObject({
      code: 429,
      reason: 'TooManyRequests',
      message: "Cannot evict pod as it would violate the pod's disruption budget.",
      details: { causes: [{ reason: 'DisruptionBudget', message: 'The disruption budget b needs 1 healthy pods and has 1 currently' }] },
    });
    expect((await server.get('pods', 'a')).metadata).not.toHaveProperty('deletionTimestamp');
  });

  it('names the reason why the status of the budget could not be computed', async () => {
    await running('a');
    const condition = { type: 'DisruptionAllowed', status: 'False', reason: 'SyncFailed', message: 'no scale' };
    await budget({ conditions: [{ ...condition, lastTransitionTime: '2026-01-01T00:00:00Z' }] });
    expect((await rejectionOf(evict('a'))).status.details?.causes).toEqual([
      {
        reason: 'DisruptionBudget',
        message: 'The disruption budget b does not allow evicting pods currently because it failed sync: no scale',
      },
    ]);
  });

  it('sets the condition of the budget to False with its last disruption', async () => {
    await running('a');
    const old = { type: 'DisruptionAllowed', reason: 'SufficientPods', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' };
    await budget({ disruptionsAllowed: 1, currentHealthy: 2, conditions: [{ ...old, status: 'True', observedGeneration: 1 }] });
    await evict('a');
    expect(await server.get('poddisruptionbudgets.policy', 'b')).toMatchObject({
      status: {
        disruptionsAllowed: 0,
        conditions: [{ type: 'DisruptionAllowed', status: 'False', reason: 'InsufficientPods', observedGeneration: 1 }],
      },
    });
  });

  it('decrements the budget', async () => {
    await running('a');
    await budget({ disruptionsAllowed: 1, currentHealthy: 2 });
    await evict('a');
    expect(await server.get('poddisruptionbudgets.policy', 'b')).toMatchObject({
      status: { disruptionsAllowed: 0, disruptedPods: { a: '2026-01-01T00:00:00Z' } },
    });
    await running('c');
    expect((await rejectionOf(evict('c'))).code).toBe(429);
  });

  it("is rejected until the budget's status is current", async () => {
    await running('a');
    await budget({ observedGeneration: 0, disruptionsAllowed: 1 });
    expect((await rejectionOf(evict('a'))).status.details).toMatchObject({
      retryAfterSeconds: 10,
      causes: [{ message: 'The disruption budget b is still being processed by the server.' }],
    });
  });

  it('ignores budgets for pods that are not counted', async () => {
    await budget({ currentHealthy: 1, desiredHealthy: 1 });
    await server.create('pods', pod('pending', {}, { labels: { app: 'x' } }));
    await evict('pending');
    await running('unready', false);
    await evict('unready');
    expect((await server.list('pods')).items.map(({ object }) => object.metadata?.deletionTimestamp !== undefined)).toEqual([true]);
  });

  it('is rejected with two budgets, and for a pod that differs from the URL', async () => {
    await running('a');
    await budget({});
    await budget({}, {}, 'c');
    expect((await rejectionOf(evict('a'))).status).toMatchObject({
      code: 500,
      message: 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.',
    });
    expect(
      (
        await rejectionOf(
          server.create(
            'pods',
            { kind: 'Eviction', apiVersion: 'policy/v1', metadata: { name: 'b' } },
            { subresource: 'eviction', name: 'a' },
          ),
        )
      ).message,
    ).toBe('name in URL does not match name in Eviction object');
    expect((await rejectionOf(evict('nobody'))).reason).toBe('NotFound');
  });

  it('does not write in a dry run', async () => {
    await running('a');
    await budget({ disruptionsAllowed: 1 });
    await evict('a', { dryRun: ['All'] });
    expect((await server.get('pods', 'a')).metadata).not.toHaveProperty('deletionTimestamp');
    expect(await server.get('poddisruptionbudgets.policy', 'b')).toMatchObject({ status: { disruptionsAllowed: 1 } });
  });
});
