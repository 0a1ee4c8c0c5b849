import { controllerRevisions, persistentVolumeClaims, pods, statefulSets } from '@oarlock/api/resources';
import type { StatefulSet, StatefulSetSpec } from '@oarlock/api/types/apps-v1';
import statefulSet from '@oarlock/controllers/apps/stateful-set/stateful-set-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import { setPodTerminated, isLive, isPodReady, setPodReady, setPodStatus, simulateKubelet } from '@oarlock/testing/simulated-pods';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { dataHash } from '@oarlock/controllers/apps/history/template-hash';
import { describe, expect, it } from 'vitest';
import { at, runControllers, named, type RunningControllers } from '../../support/running-controllers.ts';

const template = (image: string) => ({ metadata: { labels: { app: 'db' } }, spec: { containers: [{ name: 'c', image }] } });
const set = (more: Partial<StatefulSetSpec> = {}): StatefulSet => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { namespace: 'd', name: 'db' },
  spec: { replicas: 3, serviceName: 'db', selector: { matchLabels: { app: 'db' } }, template: template('a:1'), ...more },
});
const claims = [
  {
    metadata: { name: 'data' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  },
];
const status = (api: MemoryApi) => api.object(statefulSets, at('db'))?.status;
const images = (api: MemoryApi) =>
  Object.fromEntries(
    api
      .objects(pods, 'd')
      .filter(isLive)
      .map((pod) => [pod.metadata?.name, pod.spec?.containers[0]?.image]),
  );
const patch = (api: MemoryApi, spec: unknown) => api.client().patch(statefulSets, at('db'), 'merge', { spec });
const ready = async ({ api, clock }: RunningControllers, name: string) => {
  const pod = api.object(pods, at(name));
  if (pod !== undefined) await setPodReady(api, pod, clock.now());
  await clock.settle();
};

describe('StatefulSetController', () => {
  it('creates pods one by one for a number of replicas that exceeds the size of an array', async () => {
    const { api, clock } = await runControllers([statefulSet]);
    await api.client().create(statefulSets, set({ replicas: 2 ** 31 - 1 }));
    await clock.settle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0']);
    expect(status(api)).toMatchObject({ replicas: 1, currentReplicas: 1 });
  });

  it('creates pods in order, with name, index, host name, claims and revision', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    await api.client().create(statefulSets, set({ volumeClaimTemplates: claims }));
    await clock.settle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0']);
    expect(named(api.objects(persistentVolumeClaims, 'd'))).toEqual(['data-db-0']);
    const [pod] = api.objects(pods, 'd');
    const [revision] = api.objects(controllerRevisions, 'd');
    expect(pod).toMatchObject({
      metadata: {
        generateName: 'db-',
        labels: {
          app: 'db',
          'statefulset.kubernetes.io/pod-name': 'db-0',
          'apps.kubernetes.io/pod-index': '0',
          'controller-revision-hash': revision?.metadata?.name,
        },
        ownerReferences: [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'db', controller: true, blockOwnerDeletion: true }],
      },
      spec: { hostname: 'db-0', subdomain: 'db', volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data-db-0' } }] },
    });
    expect(revision).toMatchObject({ revision: 1, data: { spec: { template: { $patch: 'replace' } } } });
    const hash = dataHash(revision?.data, 0);
    expect(revision?.metadata).toMatchObject({ name: `db-${hash}`, labels: { 'controller.kubernetes.io/hash': hash } });
    expect(revision?.metadata?.labels).not.toHaveProperty('controller-revision-hash');
    // in the key order of Go
    expect(JSON.stringify(revision?.data)).toMatch(/^\{"spec":\{"template":\{"\$patch":"replace","metadata":/);
    await ready(life, 'db-0');
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0', 'db-1']);
    await life.whenIdle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0', 'db-1', 'db-2']);
    expect(status(api)).toMatchObject({
      replicas: 3,
      readyReplicas: 3,
      availableReplicas: 3,
      currentReplicas: 3,
      updatedReplicas: 3,
      currentRevision: revision?.metadata?.name,
      updateRevision: revision?.metadata?.name,
    });
    expect(life.messages('SuccessfulCreate')).toContain('create Pod db-0 in StatefulSet db successful');
    expect(life.messages('SuccessfulCreate')).toContain('create Claim data-db-0 Pod db-0 in StatefulSet db success');
  });

  it('Scaling should happen in predictable order and halt if any stateful pod is unhealthy', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    await api.client().create(statefulSets, set());
    await life.whenIdle();
    const sick = api.object(pods, at('db-0'));
    if (sick) await setPodStatus(api, sick, { conditions: [{ type: 'Ready', status: 'False' }] });
    await patch(api, { replicas: 1 });
    await clock.settle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0', 'db-1', 'db-2']);
    await ready(life, 'db-0');
    await life.whenIdle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0']);
    expect(life.messages('SuccessfulDelete')).toEqual([
      'delete Pod db-2 in StatefulSet db successful',
      'delete Pod db-1 in StatefulSet db successful',
    ]);
    await patch(api, { replicas: 0 });
    await life.whenIdle();
    expect(api.objects(pods, 'd')).toEqual([]);
  });

  it('Burst scaling should run to completion even with unhealthy pods', async () => {
    const life = await runControllers([statefulSet]);
    await life.api.client().create(statefulSets, set({ podManagementPolicy: 'Parallel' }));
    await life.clock.settle();
    expect(named(life.api.objects(pods, 'd'))).toEqual(['db-0', 'db-1', 'db-2']);
    expect(life.api.objects(pods, 'd').some(isPodReady)).toBe(false);
    await patch(life.api, { replicas: 0 });
    await life.clock.settle();
    expect(life.api.objects(pods, 'd').filter(isLive)).toEqual([]);
  });

  it('should perform rolling updates and roll backs of template modifications', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    await api.client().create(statefulSets, set());
    await life.whenIdle();
    const first = status(api)?.currentRevision;
    await patch(api, { template: template('a:2') });
    await life.clock.settle();
    // only the pod with the highest ordinal first
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:1', 'db-2': 'a:2' });
    expect(status(api)).toMatchObject({ currentRevision: first, currentReplicas: 2, updatedReplicas: 1 });
    await ready(life, 'db-2');
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:2', 'db-2': 'a:2' });
    await life.whenIdle();
    expect(new Set(Object.values(images(api)))).toEqual(new Set(['a:2']));
    expect(status(api)?.currentRevision).toBe(status(api)?.updateRevision);
    expect(status(api)?.currentRevision).not.toBe(first);

    await patch(api, { template: template('a:1') });
    await life.whenIdle();
    expect(new Set(Object.values(images(api)))).toEqual(new Set(['a:1']));
    expect(status(api)?.currentRevision).toBe(first);
    expect(
      api
        .objects(controllerRevisions, 'd')
        .map(({ revision }) => revision)
        .sort(),
    ).toEqual([2, 3]);
  });

  it('should perform canary updates and phased rolling updates of template modifications', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    await api.client().create(statefulSets, set({ updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 3 } } }));
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    await life.whenIdle();
    expect(new Set(Object.values(images(api)))).toEqual(new Set(['a:1']));
    await patch(api, { updateStrategy: { rollingUpdate: { partition: 2 } } });
    await life.whenIdle();
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:1', 'db-2': 'a:2' });
    // a deleted pod is recreated with the revision of its ordinal
    for (const name of ['db-0', 'db-2']) await api.client().delete(pods, at(name));
    await life.whenIdle();
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:1', 'db-2': 'a:2' });
    await patch(api, { updateStrategy: { rollingUpdate: { partition: 0 } } });
    await life.whenIdle();
    expect(new Set(Object.values(images(api)))).toEqual(new Set(['a:2']));
  });

  it('updates one pod at a time, as without the feature gate MaxUnavailableStatefulSet', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    const strategy = { type: 'RollingUpdate', rollingUpdate: { partition: 0, maxUnavailable: 2 } };
    await api.client().create(statefulSets, set({ replicas: 4, podManagementPolicy: 'Parallel', updateStrategy: strategy }));
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    await life.clock.settle();
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:1', 'db-2': 'a:1', 'db-3': 'a:2' });
    await life.whenIdle();
    expect(new Set(Object.values(images(api)))).toEqual(new Set(['a:2']));
  });

  it('updates an outdated pod while pods below it are unavailable', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    await api.client().create(statefulSets, set({ podManagementPolicy: 'Parallel' }));
    await life.whenIdle();
    for (const name of ['db-0', 'db-1']) {
      const sick = api.object(pods, at(name));
      if (sick) await setPodStatus(api, sick, { conditions: [{ type: 'Ready', status: 'False' }] });
    }
    await patch(api, { template: template('a:2') });
    await clock.settle();
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:1', 'db-2': 'a:2' });
    await ready(life, 'db-2');
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:2', 'db-2': 'a:2' });
  });

  it('scales down a Parallel set although one of its pods must be replaced', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    await api.client().create(statefulSets, set({ podManagementPolicy: 'Parallel' }));
    await life.whenIdle();
    const ended = api.object(pods, at('db-0'));
    if (ended === undefined) throw new Error('db-0 is missing');
    // a finalizer keeps the pod, which has ended
    await api.client().patch(pods, at('db-0'), 'merge', { metadata: { finalizers: ['test/hold'] } });
    await setPodTerminated(api, { pod: ended, exitCode: 1, at: clock.now() });
    await clock.settle();
    await patch(api, { replicas: 1 });
    await clock.settle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0']);
  });

  it('with OnDelete replaces only deleted pods', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    await api.client().create(statefulSets, set({ updateStrategy: { type: 'OnDelete' } }));
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    await life.whenIdle();
    expect(new Set(Object.values(images(api)))).toEqual(new Set(['a:1']));
    await api.client().delete(pods, at('db-1'));
    await life.whenIdle();
    expect(images(api)).toEqual({ 'db-0': 'a:1', 'db-1': 'a:2', 'db-2': 'a:1' });
  });

  it('Should recreate evicted statefulset', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    await api.client().create(statefulSets, set({ replicas: 1 }));
    await life.whenIdle();
    const pod = api.object(pods, at('db-0'));
    if (pod) await setPodTerminated(api, { pod, exitCode: 1, at: life.clock.now() });
    await life.whenIdle();
    expect(api.object(pods, at('db-0'))?.metadata?.uid).not.toBe(pod?.metadata?.uid);
    expect(life.reasons()).not.toContain('RecreatingFailedPod');
  });

  it('counts from the start ordinal and waits for availability', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    await api.client().create(statefulSets, set({ ordinals: { start: 5 }, minReadySeconds: 10 }));
    await clock.settle();
    await ready(life, 'db-5');
    expect(named(api.objects(pods, 'd'))).toEqual(['db-5']);
    await clock.advance(10_000);
    expect(named(api.objects(pods, 'd'))).toEqual(['db-5', 'db-6']);
    expect(status(api)).toMatchObject({ readyReplicas: 1, availableReplicas: 1 });
  });

  it('counts the partition from the first replica, not from ordinal 0', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { partition: 1 } };
    await api.client().create(statefulSets, set({ ordinals: { start: 5 }, updateStrategy }));
    await life.whenIdle();
    await patch(api, { template: template('a:2') });
    await life.whenIdle();
    expect(images(api)).toEqual({ 'db-5': 'a:1', 'db-6': 'a:2', 'db-7': 'a:2' });
  });

  it('keeps or deletes claims by the retention policy', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    const policy = { whenDeleted: 'Delete', whenScaled: 'Delete' };
    await api
      .client()
      .create(statefulSets, set({ replicas: 2, volumeClaimTemplates: claims, persistentVolumeClaimRetentionPolicy: policy }));
    await life.whenIdle();
    const owner = (name: string) => api.object(persistentVolumeClaims, at(name))?.metadata?.ownerReferences?.map(({ kind }) => kind);
    expect(owner('data-db-1')).toEqual(['StatefulSet']);
    await patch(api, { replicas: 1 });
    await life.whenIdle();
    expect(owner('data-db-0')).toEqual(['StatefulSet']);
    expect(owner('data-db-1')).toEqual(['Pod']);
    // the claim is deleted with its pod: a new pod waits for that
    await patch(api, { replicas: 2 });
    await life.whenIdle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0']);
    api.remove(persistentVolumeClaims, at('data-db-1'));
    await life.whenIdle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0', 'db-1']);
    await patch(api, { persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' } });
    await life.whenIdle();
    expect(owner('data-db-0') ?? []).toEqual([]);
  });

  it('makes the set the owner of claims before a pod is ready, and reports it', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    const policy = { whenDeleted: 'Delete', whenScaled: 'Retain' };
    await api
      .client()
      .create(statefulSets, set({ replicas: 2, volumeClaimTemplates: claims, persistentVolumeClaimRetentionPolicy: policy }));
    await clock.settle();
    const pod = api.object(pods, at('db-0'));
    if (pod) await setPodStatus(api, pod, { phase: 'Pending' });
    await clock.settle();
    const owners = () => api.object(persistentVolumeClaims, at('data-db-0'))?.metadata?.ownerReferences ?? [];
    expect(owners().map(({ kind }) => kind)).toEqual(['StatefulSet']);
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0']);
    await ready(life, 'db-0');
    await patch(api, { persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' } });
    await clock.settle();
    expect(owners()).toEqual([]);
    expect(life.messages('SuccessfulUpdate')).toContain('update Pod db-0 in StatefulSet db successful');
  });

  it('reuses the claim of a former pod if whenScaled is Retain', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    const former = { apiVersion: 'v1', kind: 'Pod', name: 'db-0', uid: 'former' };
    await api.client().create(persistentVolumeClaims, {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { namespace: 'd', name: 'data-db-0', ownerReferences: [former] },
      spec: claims[0]?.spec ?? {},
    });
    await api.client().create(statefulSets, set({ replicas: 1, volumeClaimTemplates: claims }));
    await clock.settle();
    expect(named(api.objects(pods, 'd'))).toEqual(['db-0']);
  });

  it('does not touch a claim of a former set of the same name', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    const former = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'db', uid: 'former' };
    await api.client().create(persistentVolumeClaims, {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { namespace: 'd', name: 'data-db-0', ownerReferences: [former] },
      spec: claims[0]?.spec ?? {},
    });
    const policy = { whenDeleted: 'Delete', whenScaled: 'Delete' };
    await api
      .client()
      .create(statefulSets, set({ replicas: 1, volumeClaimTemplates: claims, persistentVolumeClaimRetentionPolicy: policy }));
    await life.whenIdle();
    expect(api.object(persistentVolumeClaims, at('data-db-0'))?.metadata?.ownerReferences).toEqual([former]);
  });

  it('creates the other claims of a pod if one cannot be created', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    const held = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', spec: claims[0]?.spec ?? {} };
    await api
      .client()
      .create(persistentVolumeClaims, { ...held, metadata: { namespace: 'd', name: 'data-db-0', finalizers: ['test/hold'] } });
    await api.client().delete(persistentVolumeClaims, at('data-db-0'));
    await api
      .client()
      .create(statefulSets, set({ replicas: 1, volumeClaimTemplates: [...claims, { ...claims[0], metadata: { name: 'log' } }] }));
    await clock.settle();
    expect(named(api.objects(persistentVolumeClaims, 'd'))).toEqual(['data-db-0', 'log-db-0']);
    expect(life.messages('FailedCreate')[0]).toBe('create Pod db-0 in StatefulSet db failed error: pvc data-db-0 is being deleted');
  });

  it('keeps revisions up to revisionHistoryLimit', async () => {
    const life = await runControllers([statefulSet]);
    const { api } = life;
    await api.client().create(statefulSets, set({ replicas: 1, revisionHistoryLimit: 1 }));
    for (const image of ['a:2', 'a:3', 'a:4']) {
      await life.whenIdle();
      await patch(api, { template: template(image) });
    }
    await life.whenIdle();
    expect(
      api
        .objects(controllerRevisions, 'd')
        .map(({ revision }) => revision)
        .sort(),
    ).toEqual([3, 4]);
  });

  it('creates no pod twice while its cache is stale', async () => {
    const life = await runControllers([statefulSet]);
    const { api, clock } = life;
    api.dropWatches(pods);
    await api.client().create(statefulSets, set({ podManagementPolicy: 'Parallel' }));
    await clock.settle();
    await patch(api, { template: template('a:2') });
    await life.whenIdle();
    await clock.advance(60_000);
    await life.whenIdle();
    expect(images(api)).toEqual({ 'db-0': 'a:2', 'db-1': 'a:2', 'db-2': 'a:2' });
  });
});

controllerPluginContract(
  statefulSet,
  [
    {
      title: 'creates, updates and scales down a set with claims',
      simulateOthers: simulateKubelet(),
      steps: [
        async (api) => {
          await api.client().create(statefulSets, set({ replicas: 2, volumeClaimTemplates: claims }));
        },
        async (api) => {
          await patch(api, { template: template('a:2') });
        },
        async (api) => {
          await patch(api, { replicas: 1 });
        },
      ],
      expectResult: (api) => {
        expect(images(api)).toEqual({ 'db-0': 'a:2' });
        expect(named(api.objects(persistentVolumeClaims, 'd')).slice(0, 1)).toEqual(['data-db-0']);
        expect(status(api)).toMatchObject({ replicas: 1, readyReplicas: 1, updatedReplicas: 1, currentReplicas: 1 });
        expect(status(api)?.currentRevision).toBe(status(api)?.updateRevision);
      },
    },
  ],
  { defaults: true },
);
