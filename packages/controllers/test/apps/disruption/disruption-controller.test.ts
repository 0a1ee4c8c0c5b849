import { podDisruptionBudgets, pods, replicaSets } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodDisruptionBudget, PodDisruptionBudgetSpec } from '@oarlock/api/types/policy-v1';
import disruption from '@oarlock/controllers/apps/disruption/disruption-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { setPodReady, setPodStatus } from '@oarlock/testing/simulated-pods';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

const make = (spec: Partial<PodDisruptionBudgetSpec>): PodDisruptionBudget => ({
  apiVersion: 'policy/v1',
  kind: 'PodDisruptionBudget',
  metadata: { namespace: 'd', name: 'budget' },
  spec: { selector: { matchLabels: { app: 'web' } }, ...spec },
});
const set: ReplicaSet = {
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: { namespace: 'd', name: 'web', uid: 'set' },
  spec: { replicas: 4, selector: { matchLabels: { app: 'web' } } },
};
const pod = (name: string, owned = true): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    namespace: 'd',
    name,
    labels: { app: 'web' },
    ...(owned && { ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'set', controller: true }] }),
  },
  spec: { nodeName: 'n', containers: [{ name: 'c', image: 'a' }] },
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
});
const four = (api: MemoryApi) => {
  api.seed(replicaSets, set);
  api.seed(pods, pod('p1'), pod('p2'), pod('p3'), pod('p4'));
};
const status = (api: MemoryApi) => api.object(podDisruptionBudgets, at('budget'))?.status;
const allowed = (api: MemoryApi) => status(api)?.conditions?.find(({ type }) => type === 'DisruptionAllowed');

describe('DisruptionController', () => {
  it('should observe PodDisruptionBudget status updated', async () => {
    const { api, clock } = await runControllers([disruption], { seed: four });
    await api.client().create(podDisruptionBudgets, make({ minAvailable: 3 }));
    await clock.settle();
    expect(status(api)).toMatchObject({
      expectedPods: 4,
      currentHealthy: 4,
      desiredHealthy: 3,
      disruptionsAllowed: 1,
      observedGeneration: 1,
    });
    expect(allowed(api)).toMatchObject({ status: 'True', reason: 'SufficientPods' });
    await setPodStatus(api, pod('p1'), { conditions: [{ type: 'Ready', status: 'False' }] });
    await clock.settle();
    expect(status(api)).toMatchObject({ currentHealthy: 3, disruptionsAllowed: 0 });
    expect(allowed(api)).toMatchObject({ status: 'False', reason: 'InsufficientPods' });
  });

  it.each([
    [{ minAvailable: '50%' }, 2],
    [{ minAvailable: '60%' }, 3],
    [{ maxUnavailable: 1 }, 3],
    [{ maxUnavailable: '25%' }, 3],
    [{ maxUnavailable: '26%' }, 2],
  ])('with %j requires %i of 4 healthy pods', async (spec, desiredHealthy) => {
    const { api, clock } = await runControllers([disruption], { seed: four });
    await api.client().create(podDisruptionBudgets, make(spec));
    await clock.settle();
    expect(status(api)).toMatchObject({ desiredHealthy, expectedPods: 4 });
  });

  it('counts evicted pods as disrupted until they are deleted or the timeout passes', async () => {
    const life = await runControllers([disruption], { seed: four });
    const { api, clock } = life;
    await api.client().create(podDisruptionBudgets, make({ minAvailable: 2 }));
    await clock.settle();
    const budget = await api.client().get(podDisruptionBudgets, at('budget'));
    const disruptedPods = { p1: formatTime(clock.now()), unknown: formatTime(clock.now()) };
    await api
      .client()
      .update(
        podDisruptionBudgets,
        { ...budget, status: { ...budget.status, disruptionsAllowed: 1, disruptedPods } },
        { subresource: 'status' },
      );
    await clock.settle();
    expect(status(api)).toMatchObject({ currentHealthy: 3, disruptionsAllowed: 1, disruptedPods: { p1: disruptedPods.p1 } });
    expect(status(api)?.disruptedPods).not.toHaveProperty('unknown');
    await clock.advance(120_000);
    expect(status(api)).toMatchObject({ currentHealthy: 4, disruptionsAllowed: 2 });
    expect(status(api)?.disruptedPods ?? {}).toEqual({});
    expect(life.messages('NotDeleted')).toEqual(["Pod was expected by PDB d/budget to be deleted but it wasn't"]);
  });

  it('counts a pod whose name is a property of every object', async () => {
    const life = await runControllers([disruption], {
      seed(api) {
        api.seed(replicaSets, set);
        api.seed(pods, pod('constructor'), pod('p2'), pod('p3'), pod('p4'));
      },
    });
    await life.api.client().create(podDisruptionBudgets, make({ minAvailable: 3 }));
    await life.clock.settle();
    expect(status(life.api)).toMatchObject({ currentHealthy: 4, disruptionsAllowed: 1 });
    expect(life.messages('NotDeleted')).toEqual([]);
  });

  it('reports unmanaged pods, and allows no disruption if the scale of an owner cannot be read', async () => {
    const life = await runControllers([disruption], { seed: (api) => void api.seed(pods, pod('p1', false)) });
    const { api, clock } = life;
    await api.client().create(podDisruptionBudgets, make({ maxUnavailable: 1 }));
    await clock.settle();
    expect(status(api)).toMatchObject({ expectedPods: 0, disruptionsAllowed: 0 });
    expect(life.messages('UnmanagedPods')[0]).toContain(
      '(selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},})',
    );
    api.seed(pods, {
      ...pod('p2'),
      metadata: {
        ...pod('p2').metadata,
        ownerReferences: [{ apiVersion: 'x.io/v1', kind: 'Thing', name: 't', uid: 'u', controller: true }],
      },
    });
    await clock.settle();
    expect(allowed(api)).toMatchObject({
      status: 'False',
      reason: 'SyncFailed',
      message: 'no matches for kind "Thing" in version "x.io/v1"',
    });
  });

  it('names the resource of an owner that has no scale', async () => {
    const owned = pod('p1');
    const ownerReferences = [{ apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'u', controller: true }];
    const seed = (api: MemoryApi) => void api.seed(pods, { ...owned, metadata: { ...owned.metadata, ownerReferences } });
    const life = await runControllers([disruption], { seed });
    await life.api.client().create(podDisruptionBudgets, make({ maxUnavailable: 1 }));
    await life.clock.settle();
    expect(life.messages('CalculateExpectedPodCountFailed')[0]).toBe(
      'Failed to calculate the number of expected pods: jobs.batch does not implement the scale subresource',
    );
  });

  it.each([
    ['does not exist', undefined],
    ['is another object of the same name', 'other'],
  ])('allows no disruption if the controller of a pod %s', async (_case, uid) => {
    const life = await runControllers([disruption], { seed: four });
    const { api, clock } = life;
    await api.client().create(podDisruptionBudgets, make({ maxUnavailable: 1 }));
    await clock.settle();
    expect(status(api)).toMatchObject({ disruptionsAllowed: 1, observedGeneration: 1 });
    api.remove(replicaSets, at('web'));
    if (uid !== undefined) api.seed(replicaSets, { ...set, metadata: { ...set.metadata, uid } });
    await api.client().patch(podDisruptionBudgets, at('budget'), 'merge', { spec: { maxUnavailable: 2 } });
    await clock.settle();
    expect(status(api)).toMatchObject({ disruptionsAllowed: 0, observedGeneration: 1 });
    const message = 'found no controllers for pod "p1"';
    expect(allowed(api)).toMatchObject({ status: 'False', reason: 'SyncFailed', message, observedGeneration: 1 });
    expect(life.messages('CalculateExpectedPodCountFailed')).toContain(`Failed to calculate the number of expected pods: ${message}`);
  });

  it('warns of a pod with several budgets', async () => {
    const life = await runControllers([disruption], {
      seed(api) {
        for (const name of ['second', 'first'])
          api.seed(podDisruptionBudgets, { ...make({ minAvailable: 1 }), metadata: { namespace: 'd', name } });
      },
    });
    life.api.seed(pods, pod('p1'));
    await life.clock.settle();
    expect(life.messages('MultiplePodDisruptionBudgets')).toEqual([
      'Pod "d"/"p1" matches multiple PodDisruptionBudgets.  Chose "first" arbitrarily.',
    ]);
  });

  it('allows no disruption if the budget has neither minAvailable nor maxUnavailable', async () => {
    const { api, clock } = await runControllers([disruption], { seed: four });
    await api.client().create(podDisruptionBudgets, make({}));
    await clock.settle();
    expect(status(api)).toMatchObject({ currentHealthy: 4, desiredHealthy: 0, expectedPods: 0, disruptionsAllowed: 0 });
    expect(allowed(api)).toMatchObject({ status: 'False', reason: 'InsufficientPods' });
  });

  it('resets the DisruptionTarget condition of a pod that was not deleted', async () => {
    const { api, clock } = await runControllers([disruption], { seed: four });
    await setPodStatus(api, pod('p1'), {
      conditions: [{ type: 'DisruptionTarget', status: 'True', lastTransitionTime: formatTime(clock.now()) }],
    });
    await clock.advance(119_000);
    const mark = () => api.object(pods, at('p1'))?.status?.conditions?.[0]?.status;
    expect(mark()).toBe('True');
    await clock.advance(1_000);
    expect(mark()).toBe('False');
    expect(api.object(pods, at('p1'))?.status?.conditions).toEqual([
      { type: 'DisruptionTarget', status: 'False', observedGeneration: 1, lastTransitionTime: formatTime(clock.now()) },
    ]);
  });

  it('keeps the DisruptionTarget condition that a kubelet set', async () => {
    const { api, clock } = await runControllers([disruption], { seed: four });
    const condition = {
      type: 'DisruptionTarget',
      status: 'True',
      reason: 'TerminationByKubelet',
      lastTransitionTime: formatTime(clock.now()),
    };
    await setPodStatus(api, pod('p1'), { conditions: [condition] });
    await clock.advance(600_000);
    expect(api.object(pods, at('p1'))?.status?.conditions).toEqual([condition]);
  });
});

controllerPluginContract(disruption, [
  {
    title: 'counts pods as they are created and deleted',
    steps: [
      four,
      async (api) => {
        await api.client().create(podDisruptionBudgets, make({ minAvailable: 1 }));
      },
      (api) => api.remove(pods, at('p1')),
      async (api) => {
        api.seed(pods, { ...pod('p5'), status: { phase: 'Pending' } });
        await setPodReady(api, pod('p5'), Date.UTC(2026, 0, 1));
      },
    ],
    expectResult: (api) => {
      expect(status(api)).toMatchObject({ currentHealthy: 4, desiredHealthy: 1, disruptionsAllowed: 3, expectedPods: 4 });
    },
  },
]);
