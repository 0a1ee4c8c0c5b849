import { deployments, pods, replicaSets } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Deployment, DeploymentSpec, ReplicaSet } from '@oarlock/api/types/apps-v1';
import deployment from '@oarlock/controllers/apps/deployment/deployment-controller';
import replicaSet from '@oarlock/controllers/apps/replica-set/replica-set-controller';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { isLive, isPodReady } from '@oarlock/testing/simulated-pods';
import { describe, expect, it } from 'vitest';
import { at, runControllers, type RunningControllers } from '../../support/running-controllers.ts';

const template = (image: string) => ({ metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image }] } });
const make = (more: Partial<DeploymentSpec> = {}): Deployment => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'd', name: 'web' },
  spec: { replicas: 3, selector: { matchLabels: { app: 'web' } }, template: template('a:1'), ...more },
});
const patch = (api: MemoryApi, spec: unknown) => api.client().patch(deployments, at('web'), 'merge', { spec });
const sizes = (api: MemoryApi) =>
  Object.fromEntries(api.objects(replicaSets, 'd').map(({ spec }) => [spec?.template?.spec?.containers[0]?.image, spec?.replicas]));
const total = (api: MemoryApi) => api.objects(replicaSets, 'd').reduce((sum, { spec }) => sum + (spec?.replicas ?? 0), 0);
const start = async (spec: Deployment): Promise<RunningControllers> => {
  const life = await runControllers([deployment, replicaSet]);
  await life.api.client().create(deployments, spec);
  await life.whenIdle();
  return life;
};

describe('Deployment', () => {
  it('deployment should support proportional scaling', async () => {
    const life = await start(
      make({ replicas: 10, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } } }),
    );
    const { api, clock } = life;
    // the new pods never become ready: the rollout stops halfway
    await patch(api, { template: template('broken') });
    for (let round = 0; round < 5; round++) {
      await clock.settle();
      for (const pod of api.objects(pods, 'd'))
        if (pod.metadata?.deletionTimestamp !== undefined) api.remove(pods, at(pod.metadata.name ?? ''));
    }
    expect(sizes(api)).toEqual({ 'a:1': 8, broken: 5 });
    await patch(api, { replicas: 30 });
    await clock.settle();
    expect(sizes(api)).toEqual({ 'a:1': 20, broken: 13 });
    await patch(api, { replicas: 0 });
    await clock.settle();
    expect(sizes(api)).toEqual({ 'a:1': 0, broken: 0 });
  });

  it('deployment should support rollover', async () => {
    const life = await start(make());
    const { api, clock } = life;
    await patch(api, { template: template('broken') });
    await clock.settle();
    await patch(api, { template: template('a:3') });
    await life.whenIdle();
    expect(sizes(api)).toEqual({ 'a:1': 0, broken: 0, 'a:3': 3 });
    expect(api.object(deployments, at('web'))?.metadata?.annotations?.['deployment.kubernetes.io/revision']).toBe('3');
  });

  it('does not exceed maxSurge when its cache of ReplicaSets is stale', async () => {
    const life = await start(make({ replicas: 4, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } }));
    const { api, clock } = life;
    api.failNext({ verb: 'watch', resource: replicaSets }, failure('ServiceUnavailable', 'no connection'), 4);
    api.dropWatches(replicaSets);
    for (const image of ['a:2', 'a:3', 'a:4']) {
      await patch(api, { template: template(image) });
      await clock.settle();
      expect(total(api)).toBeLessThanOrEqual(5);
      // also when the controller reads the ReplicaSets, because the watch remains interrupted
      await clock.advance(1100);
      expect(total(api)).toBeLessThanOrEqual(5);
    }
    await clock.advance(60_000);
    await life.whenIdle();
    expect(sizes(api)).toEqual({ 'a:1': 0, 'a:2': 0, 'a:3': 0, 'a:4': 4 });
  });

  it('does not exceed maxSurge when the response to a created ReplicaSet is lost', async () => {
    const life = await start(make({ replicas: 4, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } }));
    const { api, clock } = life;
    api.failNext({ verb: 'watch', resource: replicaSets }, failure('ServiceUnavailable', 'no connection'), 4);
    api.dropWatches(replicaSets);
    api.failNext({ verb: 'create', resource: replicaSets }, ({ body }) => {
      api.seed(replicaSets, body as ReplicaSet);
      return failure('ServiceUnavailable', 'the connection was lost');
    });
    await patch(api, { template: template('a:2') });
    await clock.settle();
    await patch(api, { template: template('a:3') });
    await clock.advance(1100);
    expect(total(api)).toBeLessThanOrEqual(5);
    await clock.advance(60_000);
    await life.whenIdle();
    expect(sizes(api)).toEqual({ 'a:1': 0, 'a:2': 0, 'a:3': 4 });
  });

  it('keeps the generation when the controller sets the revision', async () => {
    const { api } = await start(make());
    expect(api.object(deployments, at('web'))).toMatchObject({
      metadata: { generation: 1, annotations: { 'deployment.kubernetes.io/revision': '1' } },
      status: { observedGeneration: 1 },
    });
    const writes = api.requests.filter(({ verb, resource }) => verb === 'update' && resource.resource === 'deployments');
    expect(new Set(writes.map(({ subresource }) => subresource))).toEqual(new Set(['status']));
  });

  it('shortens the name of a Deployment in the name of its ReplicaSet', async () => {
    const name = 'a'.repeat(250);
    const { api } = await start({ ...make(), metadata: { namespace: 'd', name } });
    const [set] = api.objects(replicaSets, 'd');
    const hash = set?.metadata?.labels?.['pod-template-hash'] ?? '';
    expect(set?.metadata?.name).toBe(`${'a'.repeat(252 - hash.length)}-${hash}`);
    expect(sizes(api)).toEqual({ 'a:1': 3 });
  });

  it('counts desired replicas as unavailable if their pods cannot be created', async () => {
    const life = await runControllers([deployment, replicaSet]);
    life.api.failNext({ verb: 'create', resource: pods }, failure('Forbidden', 'exceeded quota'), 1000);
    await life.api.client().create(deployments, make());
    await life.clock.settle();
    expect(life.api.object(deployments, at('web'))?.status).toMatchObject({ replicas: 0, unavailableReplicas: 3 });
  });

  it('deployment should delete old replica sets', async () => {
    const life = await start(make({ revisionHistoryLimit: 0 }));
    await patch(life.api, { template: template('a:2') });
    await life.whenIdle();
    expect(sizes(life.api)).toEqual({ 'a:2': 3 });
  });

  it('RollingUpdateDeployment should delete old pods and create new ones, and keeps the minimum available', async () => {
    const life = await start(make({ replicas: 4, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } } }));
    const { api, clock } = life;
    await patch(api, { template: template('a:2') });
    for (let step = 0; step < 30; step++) {
      await clock.settle();
      expect(api.objects(pods, 'd').filter(isLive).filter(isPodReady).length).toBeGreaterThanOrEqual(3);
      if (sizes(api)['a:2'] === 4) break;
      await life.whenIdle();
    }
    expect(sizes(api)).toEqual({ 'a:1': 0, 'a:2': 4 });
  });

  it('reports resumption after a pause and restarts the progress deadline', async () => {
    const life = await start(make({ progressDeadlineSeconds: 60 }));
    const { api, clock } = life;
    const progressing = () => api.object(deployments, at('web'))?.status?.conditions?.find(({ type }) => type === 'Progressing');
    // in the middle of a rollout whose pods are not created
    await patch(api, { template: template('broken') });
    await clock.settle();
    await patch(api, { paused: true });
    await clock.advance(600_000);
    expect(progressing()).toMatchObject({ status: 'Unknown', reason: 'DeploymentPaused', message: 'Deployment is paused' });
    await patch(api, { paused: false });
    await clock.settle();
    expect(progressing()).toMatchObject({ status: 'Unknown', reason: 'DeploymentResumed', message: 'Deployment is resumed' });
    await clock.advance(59_000);
    expect(progressing()?.reason).toBe('DeploymentResumed');
    await clock.advance(2_000);
    expect(progressing()).toMatchObject({ status: 'False', reason: 'ProgressDeadlineExceeded' });
    expect(progressing()?.message).toMatch(/^ReplicaSet "web-[a-z0-9]+" has timed out progressing\.$/);
  });

  it('deletes old ReplicaSets while it is paused', async () => {
    const life = await start(make());
    for (const image of ['a:2', 'a:3']) {
      await patch(life.api, { template: template(image) });
      await life.whenIdle();
    }
    await patch(life.api, { paused: true, revisionHistoryLimit: 1 });
    await life.whenIdle();
    expect(sizes(life.api)).toEqual({ 'a:2': 0, 'a:3': 3 });
  });

  it('increments collisionCount if another template has the same hash', async () => {
    const life = await runControllers([deployment, replicaSet]);
    const { api, clock } = life;
    await api.client().create(deployments, make());
    await clock.settle();
    const [set] = api.objects(replicaSets, 'd');
    const second = { ...make(), metadata: { namespace: 'd', name: 'copy' } };
    // a ReplicaSet with the name that the Deployment would use
    api.seed(replicaSets, {
      ...set,
      metadata: { namespace: 'd', name: `copy-${set?.metadata?.name?.split('-')[1]}` },
      spec: { replicas: 0, selector: { matchLabels: { other: 'x' } }, template: template('other') },
    });
    await api
      .client()
      .create(deployments, { ...second, spec: { ...make().spec, selector: { matchLabels: { app: 'web' } } } as DeploymentSpec });
    await clock.advance(100);
    expect(api.object(deployments, at('copy'))?.status?.collisionCount).toBe(1);
    expect(api.objects(replicaSets, 'd').filter(({ metadata }) => metadata?.ownerReferences?.[0]?.name === 'copy')).toHaveLength(1);
  });
});
