import { clusterRoles, configMaps, events, pods, replicaSets, secrets } from '@oarlock/api/resources';
import type { KubeObject, OwnerReference } from '@oarlock/api/object';
import { failure } from '@oarlock/api/status';
import garbageCollector from '@oarlock/controllers/api-machinery/garbage-collector/garbage-collector';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers, named } from '../../support/running-controllers.ts';

const plain = { defaults: false };
const ref = (owner: KubeObject | undefined, block = true): OwnerReference => ({
  apiVersion: 'v1',
  kind: owner?.kind ?? 'ConfigMap',
  name: owner?.metadata?.name ?? '',
  uid: owner?.metadata?.uid ?? '',
  blockOwnerDeletion: block,
});
const map = (name: string, ...ownerReferences: readonly OwnerReference[]) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'd', name, ...(ownerReferences.length > 0 && { ownerReferences }) },
});
const secret = (name: string, ...ownerReferences: readonly OwnerReference[]) => ({ ...map(name, ...ownerReferences), kind: 'Secret' });
const foreign = (name: string, owner: OwnerReference) => {
  const { metadata, ...rest } = secret(name, owner);
  return { ...rest, metadata: { ...metadata, namespace: 'other' } };
};
const left = (api: MemoryApi) => [...named(api.objects(configMaps, 'd')), ...named(api.objects(secrets, 'd'))];

describe('[sig-api-machinery] Garbage collector', () => {
  it('should keep the owner around until all its dependents are deleted, with foreground deletion', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [owner] = api.seed(configMaps, map('owner'));
    api.seed(
      secrets,
      { ...secret('slow', ref(owner)), metadata: { ...secret('slow', ref(owner)).metadata, finalizers: ['test/hold'] } },
      secret('quick', ref(owner)),
      secret('free', ref(owner, false)),
    );
    await clock.settle();
    await api.client().delete(configMaps, at('owner'), { propagationPolicy: 'Foreground' });
    await clock.settle();
    expect(left(api)).toContain('owner');
    expect(left(api)).not.toContain('quick');
    await api.client().patch(secrets, at('slow'), 'merge', { metadata: { finalizers: null } });
    await clock.settle();
    expect(left(api)).toEqual([]);
  });

  it('should orphan the dependents with orphan deletion', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [owner] = api.seed(configMaps, map('owner'));
    api.seed(secrets, secret('a', ref(owner)), secret('b', ref(owner)));
    await clock.settle();
    await api.client().delete(configMaps, at('owner'), { propagationPolicy: 'Orphan' });
    await clock.settle();
    expect(left(api)).toEqual(['a', 'b']);
    expect(api.objects(secrets, 'd').flatMap(({ metadata }) => metadata?.ownerReferences ?? [])).toEqual([]);
  });

  it("should not delete dependents that have both valid owner and owner that's waiting for dependents to be deleted", async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [leaving, staying] = api.seed(configMaps, map('leaving'), map('staying'));
    api.seed(secrets, secret('shared', ref(leaving), ref(staying)), secret('own', ref(leaving)));
    await clock.settle();
    await api.client().delete(configMaps, at('leaving'), { propagationPolicy: 'Foreground' });
    await clock.settle();
    expect(left(api)).toEqual(['staying', 'shared']);
    expect(api.object(secrets, at('shared'))?.metadata?.ownerReferences?.map(({ name }) => name)).toEqual(['staying']);
  });

  it('keeps the dependents of an owner whose uid a reference of another namespace gives another name', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    // the collector reads an owner of this kind from the API server
    const [owner] = api.seed(events, { ...map('owner'), kind: 'Event', involvedObject: {} });
    api.seed(secrets, foreign('forged', { ...ref(owner), kind: 'ConfigMap', name: 'none' }));
    await clock.settle();
    api.seed(secrets, secret('own', ref(owner)));
    await clock.settle();
    expect(left(api)).toEqual(['own']);
    expect(named(api.objects(secrets, 'other'))).toEqual([]);
  });

  it('does not let an object of another namespace hold a foreground deletion', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [owner] = api.seed(configMaps, map('owner'));
    const held = foreign('held', ref(owner));
    api.seed(secrets, { ...held, metadata: { ...held.metadata, finalizers: ['test/hold'] } });
    await clock.settle();
    await api.client().delete(configMaps, at('owner'), { propagationPolicy: 'Foreground' });
    await clock.settle();
    expect(left(api)).toEqual([]);
  });

  it('should not be blocked by dependency circle', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [a, b, c] = api.seed(configMaps, map('a'), map('b'), map('c'));
    const own = (name: string, owner: KubeObject | undefined) =>
      api.client().patch(configMaps, at(name), 'merge', { metadata: { ownerReferences: [ref(owner)] } });
    await own('a', c);
    await own('b', a);
    await own('c', b);
    await clock.settle();
    await api.client().delete(configMaps, at('a'), { propagationPolicy: 'Foreground' });
    await clock.advance(60_000);
    expect(left(api)).toEqual([]);
  });

  it('does not delete a dependent that gets a new owner during its deletion', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [old, next] = api.seed(configMaps, map('old'), map('next'));
    api.seed(secrets, secret('taken', ref(old)));
    await clock.settle();
    api.dropWatches(secrets);
    await api.client().patch(secrets, at('taken'), 'merge', { metadata: { ownerReferences: [ref(next)] } });
    await api.client().delete(configMaps, at('old'), { propagationPolicy: 'Background' });
    await clock.advance(60_000);
    expect(left(api)).toEqual(['next', 'taken']);
  });

  it('deletes a dependent whose owner reference has a wrong kind or name, and keeps one whose reference is correct', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [owner] = api.seed(configMaps, map('owner'));
    api.seed(
      secrets,
      secret('kind', { ...ref(owner), kind: 'Secret' }),
      secret('name', { ...ref(owner), name: 'other' }),
      secret('right', ref(owner)),
    );
    await clock.settle();
    expect(left(api)).toEqual(['owner', 'right']);
    api.seed(secrets, secret('late', { ...ref(owner), name: 'other' }));
    await clock.settle();
    expect(left(api)).toEqual(['owner', 'right']);
    await api.client().delete(configMaps, at('owner'), {});
    await clock.settle();
    expect(left(api)).toEqual([]);
  });

  it('does not change a dependent while the kind of one of its owners is unknown', async () => {
    const { api, clock } = await runControllers([garbageCollector], plain);
    const [leaving] = api.seed(configMaps, map('leaving'));
    const unknown = { ...ref(undefined), apiVersion: 'x.io/v1', kind: 'Thing', name: 't', uid: 'thing' };
    const gone = { ...ref(undefined), name: 'gone', uid: 'gone' };
    api.seed(secrets, secret('kept', ref(leaving), unknown, gone));
    await clock.settle();
    await api.client().delete(configMaps, at('leaving'), { propagationPolicy: 'Foreground' });
    await clock.advance(60_000);
    expect(left(api)).toEqual(['leaving', 'kept']);
    expect(api.object(secrets, at('kept'))?.metadata?.ownerReferences?.map(({ name }) => name)).toEqual(['leaving', 't', 'gone']);
  });

  it.each([
    ['in a group version that has other kinds', failure('NotFound', 'the server could not find the requested resource', {})],
    ['in a group version that it does not know', failure('NotFound', 'an error on the server ("404 page not found")')],
  ])('keeps dependents whose owner is of a built-in kind that the server does not serve, %s', async (_case, unserved) => {
    const { api, clock } = await runControllers([garbageCollector], {
      ...plain,
      seed: (memory) => {
        // as the leader at a server with runtimeConfig, while another server of the cluster serves ReplicaSets
        memory.failNext({ verb: 'get', resource: replicaSets }, unserved);
        memory.seed(secrets, secret('kept', { ...ref(undefined), apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'web' }));
      },
    });
    await clock.advance(10_000);
    expect(left(api)).toEqual(['kept']);
    // the server serves the kind: it answers that the owner does not exist
    await clock.advance(3_600_000);
    expect(left(api)).toEqual([]);
  });

  it.each([
    ['reports a cluster-scoped dependent of an object in a namespace, and keeps its references', true, 1],
    ['keeps the references of a cluster-scoped dependent of an object in a namespace that does not exist', false, 0],
  ])('%s', async (_case, exists, events) => {
    const life = await runControllers([garbageCollector], plain);
    const owner = exists ? life.api.seed(configMaps, map('owner'))[0] : undefined;
    const ownerReferences = [
      { ...ref(owner), name: 'owner', uid: owner?.metadata?.uid ?? 'gone' },
      { ...ref(undefined), kind: 'Node', name: 'n', uid: 'gone-node' },
    ];
    life.api.seed(clusterRoles, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'r', ownerReferences },
      rules: [],
    });
    await life.clock.advance(60_000);
    expect(life.api.object(clusterRoles, { name: 'r' })?.metadata?.ownerReferences).toEqual(ownerReferences);
    expect(life.messages('OwnerRefInvalidNamespace')).toEqual(
      Array(events).fill(`ownerRef [v1/ConfigMap, namespace: , name: owner, uid: ${owner?.metadata?.uid}] does not exist in namespace ""`),
    );
  });

  it('deletes dependents whose owner is in another namespace', async () => {
    const life = await runControllers([garbageCollector], plain);
    const [elsewhere] = life.api.seed(configMaps, { ...map('owner'), metadata: { namespace: 'other', name: 'owner' } });
    life.api.seed(secrets, secret('stray', ref(elsewhere)));
    await life.clock.settle();
    expect(left(life.api)).toEqual([]);
    expect(life.reasons()).toContain('OwnerRefInvalidNamespace');
  });
});

controllerPluginContract(garbageCollector, [
  {
    title: 'deletes a chain of owners in the foreground',
    steps: [
      (api) => {
        const [owner] = api.seed(configMaps, map('owner'));
        const [set] = api.seed(replicaSets, {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          metadata: { namespace: 'd', name: 'set', ownerReferences: [ref(owner)] },
          spec: { selector: {} },
        });
        api.seed(pods, {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { namespace: 'd', name: 'p', ownerReferences: [{ ...ref(set), apiVersion: 'apps/v1' }] },
          spec: { containers: [] },
        });
      },
      async (api) => {
        await api.client().delete(configMaps, at('owner'), { propagationPolicy: 'Foreground' });
      },
    ],
    expectResult: (api) => expect([...left(api), ...named(api.objects(replicaSets, 'd')), ...named(api.objects(pods, 'd'))]).toEqual([]),
  },
  {
    title: 'orphans dependents',
    steps: [
      (api) => {
        const [owner] = api.seed(configMaps, map('owner'));
        api.seed(secrets, secret('a', ref(owner)), secret('b', ref(owner)));
      },
      async (api) => {
        await api.client().delete(configMaps, at('owner'), { propagationPolicy: 'Orphan' });
      },
    ],
    expectResult: (api) => {
      expect(left(api)).toEqual(['a', 'b']);
      expect(api.objects(secrets, 'd').flatMap(({ metadata }) => metadata?.ownerReferences ?? [])).toEqual([]);
    },
  },
]);
