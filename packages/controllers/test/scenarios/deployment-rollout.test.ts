import { deployments, pods } from '@oarlock/api/resources';
import { describe, expect, it } from 'vitest';
import {
  api,
  clock,
  condition,
  deployment,
  get,
  image,
  live,
  makeReady,
  reap,
  recordedEvents,
  sets,
  start,
  template,
  useBuiltInControllers,
} from '../support/built-in-controllers.ts';

useBuiltInControllers();

describe('DeploymentController', () => {
  it('creates a ReplicaSet, whose pods are created, and reports when all are available', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    expect(live()).toHaveLength(3);
    const [set] = sets();
    expect(set?.metadata?.name).toMatch(/^web-[4-9bcdf]{1,10}$/);
    expect(set?.metadata?.annotations).toMatchObject({
      'deployment.kubernetes.io/revision': '1',
      'deployment.kubernetes.io/desired-replicas': '3',
      'deployment.kubernetes.io/max-replicas': '4',
    });
    expect(live()[0]?.metadata).toMatchObject({
      generateName: `${set?.metadata?.name}-`,
      ownerReferences: [{ kind: 'ReplicaSet', controller: true, blockOwnerDeletion: true }],
    });
    expect(condition(get(), 'Available')).toMatchObject({ status: 'False', reason: 'MinimumReplicasUnavailable' });
    await makeReady();
    expect(get().status).toMatchObject({ replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3, observedGeneration: 1 });
    expect(condition(get(), 'Available')).toMatchObject({
      status: 'True',
      reason: 'MinimumReplicasAvailable',
      message: 'Deployment has minimum availability.',
    });
    expect(condition(get(), 'Progressing')).toMatchObject({
      status: 'True',
      reason: 'NewReplicaSetAvailable',
      message: `ReplicaSet "${set?.metadata?.name}" has successfully progressed.`,
    });
    expect(recordedEvents).toContainEqual({
      reason: 'ScalingReplicaSet',
      message: `Scaled up replica set ${set?.metadata?.name} from 0 to 3`,
    });
  });

  it('rolls out a new template within its limits, and back to an old one', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await makeReady();
    const first = sets()[0]?.metadata?.name;
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { template: template('a:2') } });
    for (let round = 0; round < 12; round++) {
      await clock.settle();
      const ready = live().filter(({ status }) =>
        status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True'),
      );
      expect(live().length).toBeLessThanOrEqual(4);
      expect(ready.length).toBeGreaterThanOrEqual(2);
      await reap();
      await makeReady(live().slice(-1));
      await makeReady();
    }
    expect(live().map(({ spec }) => spec?.containers[0]?.image)).toEqual(['a:2', 'a:2', 'a:2']);
    expect(sets().find((set) => image(set) === 'a:1')?.spec?.replicas).toBe(0);
    expect(get().metadata?.annotations?.['deployment.kubernetes.io/revision']).toBe('2');

    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { template: template('a:1') } });
    for (let round = 0; round < 12; round++) {
      await clock.settle();
      await reap();
      await makeReady();
    }
    const back = sets().find((set) => image(set) === 'a:1');
    expect(back?.metadata?.name).toBe(first);
    expect(back?.metadata?.annotations).toMatchObject({
      'deployment.kubernetes.io/revision': '3',
      'deployment.kubernetes.io/revision-history': '1',
    });
    expect(get().status).toMatchObject({ updatedReplicas: 3, availableReplicas: 3, unavailableReplicas: 0 });
  });

  it('finds the ReplicaSet of a template regardless of how empty values are written', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    const withEmptyValues = {
      metadata: { creationTimestamp: null, labels: { app: 'web' } },
      spec: { containers: [{ name: 'c', image: 'a:1', resources: {}, env: [] }] },
    };
    await api
      .client()
      .patch(deployments, { namespace: 'd', name: 'web' }, 'json', [{ op: 'replace', path: '/spec/template', value: withEmptyValues }]);
    await clock.settle();
    expect(sets()).toHaveLength(1);
  });

  it('scales without a rollout', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { replicas: 5 } });
    await clock.settle();
    expect(live()).toHaveLength(5);
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { replicas: 1 } });
    await clock.settle();
    expect(live()).toHaveLength(1);
    expect(sets()).toHaveLength(1);
  });

  it('with Recreate creates new pods after the old ones are deleted', async () => {
    await start();
    await api.client().create(deployments, deployment({ strategy: { type: 'Recreate' } }));
    await clock.settle();
    await makeReady();
    // a finalizer keeps deleted pods visible, as the grace period does
    for (const pod of live())
      api.seed(pods, {
        ...pod,
        metadata: { ...pod.metadata, finalizers: ['test/hold'] },
        spec: { ...pod.spec, containers: pod.spec?.containers ?? [], nodeName: 'n' },
      });
    await clock.settle();
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { template: template('a:2') } });
    await clock.settle();
    expect(live()).toEqual([]);
    expect(api.objects(pods, 'd')).toHaveLength(3);
    await reap();
    expect(live().map(({ spec }) => spec?.containers[0]?.image)).toEqual(['a:2', 'a:2', 'a:2']);
  });

  it('reports the progress deadline', async () => {
    await start();
    await api.client().create(deployments, deployment({ progressDeadlineSeconds: 60 }));
    await clock.advance(61_000);
    expect(condition(get(), 'Progressing')).toMatchObject({ status: 'False', reason: 'ProgressDeadlineExceeded' });
    expect(condition(get(), 'Progressing')?.message).toMatch(/^ReplicaSet "web-\w+" has timed out progressing\.$/);
  });

  it('stops a paused rollout and continues it on resume', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await makeReady();
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { paused: true, template: template('a:2') } });
    await clock.settle();
    expect(sets().map(image)).toEqual(['a:1']);
    expect(condition(get(), 'Progressing')).toMatchObject({
      status: 'Unknown',
      reason: 'DeploymentPaused',
      message: 'Deployment is paused',
    });
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { paused: false } });
    await clock.settle();
    expect(sets().map(image).sort()).toEqual(['a:1', 'a:2']);
  });
});
