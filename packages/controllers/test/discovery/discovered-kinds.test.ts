import type { KubeObject } from '@oarlock/api/object';
import { apiServices, configMaps, namespaces, resourceQuotas, storageVersionMigrationsV1beta1 } from '@oarlock/api/resources';
import { resource, type Resource } from '@oarlock/api/resource';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import garbageCollector from '@oarlock/controllers/api-machinery/garbage-collector/garbage-collector';
import namespaceController from '@oarlock/controllers/api-machinery/namespace/namespace-controller';
import resourceQuota from '@oarlock/controllers/api-machinery/resource-quota/resource-quota-controller';
import migrator from '@oarlock/controllers/api-machinery/storage-version-migration/storage-version-migration-controller';
import type { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startControllers, type RunningController } from '../support/run-controller.ts';

const group = 'wardle.example.com';
const flunders = resource(group, 'v1alpha1', 'flunders', 'Flunder', true);
const path = `/apis/${group}/v1alpha1`;
const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const listed = (...all: readonly (Resource & { readonly verbs?: readonly string[] })[]) => ({
  kind: 'APIResourceList',
  resources: [
    ...all.map(({ resource: name, kind, namespaced, ...more }) => ({ name, kind, namespaced, verbs: more.verbs ?? verbs })),
    { name: 'flunders/status', kind: 'Flunder', namespaced: true, verbs: ['get'] },
  ],
});

let running: RunningController;
let clock: FakeClock;
let api: MemoryApi;

beforeEach(async () => {
  running = await startControllers(
    [{ plugin: garbageCollector }, { plugin: namespaceController }, { plugin: resourceQuota }, { plugin: migrator }],
    {
      api: (of) => memoryApi({ clock: of, served: ['storagemigration.k8s.io/v1beta1'] }),
    },
  );
  ({ clock, api } = running);
});
afterEach(() => running.stop());

const service = (available: boolean, version = 'v1alpha1', versionPriority = 100): APIService => ({
  apiVersion: 'apiregistration.k8s.io/v1',
  kind: 'APIService',
  metadata: { name: `${version}.${group}`, uid: version },
  spec: { group, version, groupPriorityMinimum: 1000, versionPriority, service: { namespace: 'default', name: 'wardle' } },
  status: { conditions: [{ type: 'Available', status: available ? 'True' : 'False' }] },
});
async function register(...kinds: readonly Resource[]): Promise<void> {
  api.paths.set(path, listed(...kinds));
  api.seed(apiServices, service(true));
  await clock.settle();
}
const flunder = (name: string, more: KubeObject['metadata'] = {}, of = flunders): KubeObject => ({
  apiVersion: `${of.group}/${of.version}`,
  kind: of.kind,
  metadata: { namespace: 'd', name, ...more },
});
const ownedBy = (owner: KubeObject) => ({
  ownerReferences: [
    { apiVersion: `${group}/v1alpha1`, kind: owner.kind ?? '', name: owner.metadata?.name ?? '', uid: owner.metadata?.uid ?? '' },
  ],
});
const map = (name: string, more: KubeObject['metadata']): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'd', name, ...more },
});
const asked = () => api.requests.filter(({ resource: of }) => of.group === group).length;
const namespace = (name: string): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name },
  ...{ spec: { finalizers: ['kubernetes'] } },
});

describe('kinds of extension API servers', () => {
  it('are garbage collected like built-in kinds', async () => {
    await register(flunders);
    const owner = await api.client().create(flunders, flunder('owner'));
    await api.client().create(flunders, flunder('dependent', ownedBy(owner)));
    await api.client().create(configMaps, map('data', ownedBy(owner)));
    await clock.settle();
    await api.client().delete(flunders, { namespace: 'd', name: 'owner' });
    await clock.advance(1_000);
    expect(api.objects(flunders, 'd')).toEqual([]);
    expect(api.objects(configMaps, 'd')).toEqual([]);
  });

  it('block the foreground deletion of their owner', async () => {
    await register(flunders);
    const owner = await api.client().create(flunders, flunder('owner'));
    const [reference] = ownedBy(owner).ownerReferences;
    await api
      .client()
      .create(
        flunders,
        flunder('held', { finalizers: ['example.com/hold'], ownerReferences: [{ ...reference, blockOwnerDeletion: true } as never] }),
      );
    await clock.settle();
    await api.client().delete(flunders, { namespace: 'd', name: 'owner' }, { propagationPolicy: 'Foreground' });
    await clock.advance(5_000);
    expect(api.object(flunders, { namespace: 'd', name: 'held' })?.metadata?.deletionTimestamp).toBeDefined();
    expect(api.object(flunders, { namespace: 'd', name: 'owner' })?.metadata?.finalizers).toEqual(['foregroundDeletion']);
    await api.client().patch(flunders, { namespace: 'd', name: 'held' }, 'merge', { metadata: { finalizers: null } });
    await clock.advance(5_000);
    expect(api.objects(flunders, 'd')).toEqual([]);
  });

  it('that appear after the deletion of their owner get their dependents reconciled', async () => {
    api.seed(configMaps, map('orphan', ownedBy(flunder('never', { uid: 'gone' }))));
    api.seed(configMaps, map('odd', { ownerReferences: [{ apiVersion: 'nobody.knows/v1', kind: 'What', name: 'x', uid: 'y' }] }));
    await clock.settle();
    expect(api.objects(configMaps, 'd')).toHaveLength(2);
    await register(flunders);
    await clock.advance(1_000);
    expect(api.objects(configMaps, 'd').map(({ metadata }) => metadata?.name)).toEqual(['odd']);
  });

  it('are deleted with their namespace, also without deletecollection', async () => {
    const slow = resource(group, 'v1alpha1', 'slows', 'Slow', true);
    const mute = resource(group, 'v1alpha1', 'mutes', 'Mute', true);
    await register(flunders, { ...slow, verbs: ['delete', 'get', 'list'] } as never, { ...mute, verbs: ['create'] } as never);
    await api.client().create(namespaces, namespace('d'));
    for (const name of ['a', 'b']) await api.client().create(flunders, flunder(name));
    for (const name of ['a', 'b']) await api.client().create(slow, flunder(name, {}, slow));
    await clock.settle();
    api.requests.length = 0;
    await api.client().delete(namespaces, { name: 'd' });
    await clock.advance(10_000);
    expect([...api.objects(flunders, 'd'), ...api.objects(slow, 'd'), ...api.objects(namespaces)]).toEqual([]);
    const verbsOf = (name: string) => new Set(api.requests.filter(({ resource: of }) => of.resource === name).map(({ verb }) => verb));
    expect(verbsOf('slows')).toEqual(new Set(['list', 'delete']));
    expect(verbsOf('mutes')).toEqual(new Set());
  });

  it('keep a namespace only while their discovery fails', async () => {
    await register(flunders);
    await api.client().create(namespaces, namespace('d'));
    await api.client().create(configMaps, map('data', {}));
    api.seed(apiServices, service(false));
    await clock.settle();
    await api.client().delete(namespaces, { name: 'd' });
    await clock.advance(20_000);
    expect(api.objects(configMaps, 'd')).toEqual([]);
    const [waiting] = api.objects(namespaces);
    expect(waiting?.status?.conditions?.[0]).toMatchObject({
      type: 'NamespaceDeletionDiscoveryFailure',
      status: 'True',
      reason: 'DiscoveryFailed',
      message:
        'Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: wardle.example.com/v1alpha1: stale GroupVersion discovery: wardle.example.com/v1alpha1',
    });
    api.seed(apiServices, service(true));
    await clock.settle();
    expect(api.objects(namespaces)).toEqual([]);
  });

  it('are garbage collected as last known while their group does not respond', async () => {
    await register(flunders);
    const owner = await api.client().create(flunders, flunder('owner'));
    await api.client().create(configMaps, map('data', ownedBy(owner)));
    api.seed(apiServices, service(false));
    await clock.settle();
    await api.client().delete(flunders, { namespace: 'd', name: 'owner' });
    await clock.advance(1_000);
    expect(api.objects(configMaps, 'd')).toEqual([]);
  });

  it('are discovered again after a failure and periodically, not in between', async () => {
    api.paths.set(path, { kind: 'Status' });
    api.seed(apiServices, service(true));
    await clock.settle();
    api.paths.set(path, listed(flunders));
    await clock.advance(2_000);
    expect(asked()).toBeGreaterThan(0); // discovery requests were sent
    const fischers = resource(group, 'v1alpha1', 'fischers', 'Fischer', true);
    const followed = () => api.requests.some(({ resource: of, verb }) => of.resource === 'fischers' && verb === 'watch');
    api.paths.set(path, listed(flunders, fischers));
    await clock.advance(20_000);
    expect(followed()).toBe(false);
    await clock.advance(11_000);
    expect(followed()).toBe(true);
  });

  it('are watched in the preferred version until their APIService is deleted', async () => {
    const newer = resource(group, 'v1', 'flunders', 'Flunder', true);
    await register(flunders);
    const old = api.informers.forResource(flunders);
    await old.whenSynced();
    api.paths.set(`/apis/${group}/v1`, listed(newer));
    api.seed(apiServices, service(true, 'v1', 100));
    await clock.settle();
    expect(api.informers.forResource(flunders)).not.toBe(old);
    const followed = api.informers.forResource(newer);
    await followed.whenSynced();
    await api.client().delete(apiServices, { name: `v1.${group}` });
    await clock.settle();
    expect(api.informers.forResource(newer)).not.toBe(followed);
  });

  it('include optional groups of the API server, whose built-in groups are not discovered', async () => {
    const ours = (name: string, of: string, version: string): APIService => ({
      metadata: { name, labels: { 'kube-aggregator.kubernetes.io/automanaged': 'onstart' } },
      spec: { group: of, version, groupPriorityMinimum: 1, versionPriority: 1 },
      status: { conditions: [{ type: 'Available', status: 'True' }] },
    });
    const futures = resource('future.k8s.io', 'v1', 'futures', 'Future', true);
    api.paths.set('/apis/future.k8s.io/v1', listed(futures));
    api.seed(apiServices, ours('v1.future.k8s.io', 'future.k8s.io', 'v1'), ours('v1.apps', 'apps', 'v1'));
    await clock.settle();
    const owner = await api.client().create(futures, { ...flunder('owner', {}, futures) });
    await api.client().create(
      configMaps,
      map('data', {
        ownerReferences: [{ apiVersion: 'future.k8s.io/v1', kind: 'Future', name: 'owner', uid: owner.metadata?.uid ?? '' }],
      }),
    );
    await clock.settle();
    await api.client().delete(futures, { namespace: 'd', name: 'owner' });
    await clock.advance(1_000);
    expect(api.objects(configMaps, 'd')).toEqual([]);
  });

  it('are counted by quotas as they appear and disappear', async () => {
    const name = `count/flunders.${group}`;
    const used = () => api.object(resourceQuotas, { namespace: 'd', name: 'q' })?.status?.used;
    await api.client().create(resourceQuotas, { metadata: { namespace: 'd', name: 'q' }, spec: { hard: { [name]: '5' } } });
    api.seed(flunders, flunder('before'));
    await clock.settle();
    expect(used()).toEqual({ [name]: '0' });
    await register(flunders);
    expect(used()).toEqual({ [name]: '1' });
    await api.client().create(flunders, flunder('a'));
    await clock.settle();
    expect(used()).toEqual({ [name]: '2' });
    await api.client().delete(flunders, { namespace: 'd', name: 'before' });
    await clock.settle();
    expect(used()).toEqual({ [name]: '1' });
  });

  it('keep their charged usage while they cannot be counted', async () => {
    const name = `count/flunders.${group}`;
    await api.client().create(resourceQuotas, { metadata: { namespace: 'd', name: 'q' }, spec: { hard: { [name]: '5', pods: '3' } } });
    await clock.settle();
    const quota = await api.client().get(resourceQuotas, { namespace: 'd', name: 'q' });
    const charged = { hard: quota.status?.hard ?? {}, used: { ...quota.status?.used, [name]: '3' } };
    await api.client().update(resourceQuotas, { ...quota, status: charged }, { subresource: 'status' });
    await clock.advance(400_000);
    expect(api.object(resourceQuotas, { namespace: 'd', name: 'q' })?.status?.used).toEqual({ [name]: '3', pods: '0' });
  });

  it('are rewritten by storage version migrations', async () => {
    await register(flunders);
    await api.client().create(flunders, flunder('a'));
    await api
      .client()
      .create(storageVersionMigrationsV1beta1, { metadata: { name: 'm' }, spec: { resource: { group, resource: 'flunders' } } });
    await clock.advance(1_000);
    expect(api.object(storageVersionMigrationsV1beta1, { name: 'm' })?.status?.conditions?.map(({ type }) => type)).toContain('Succeeded');
    expect(api.requests.filter(({ verb, resource: of }) => verb === 'patch' && of.resource === 'flunders')).toHaveLength(1);
  });

  it('are rewritten once while the informer of migrations lags behind the status writes', async () => {
    await register(flunders);
    await api.client().create(flunders, flunder('a'));
    const isRewrite = ({ verb, resource: of }: { readonly verb: string; readonly resource: Resource }) =>
      verb === 'patch' && of.resource === 'flunders';
    // never fails a request: the matcher cuts the watch when the first rewrite is sent
    api.failNext((request) => {
      if (!isRewrite(request)) return false;
      api.failNext(({ verb, resource: of }) => verb === 'watch' && of.resource === 'storageversionmigrations', new Error('reset'), 3);
      api.dropWatches(storageVersionMigrationsV1beta1);
      return false;
    }, new Error('unused'));
    await api
      .client()
      .create(storageVersionMigrationsV1beta1, { metadata: { name: 'm' }, spec: { resource: { group, resource: 'flunders' } } });
    await clock.advance(60_000);
    expect(api.object(storageVersionMigrationsV1beta1, { name: 'm' })?.status?.conditions?.map(({ type }) => type)).toContain('Succeeded');
    expect(api.requests.filter(isRewrite)).toHaveLength(1);
  });
});
