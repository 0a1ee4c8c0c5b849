import { deployments, namespaces, nodes, pods, configMaps } from '@oarlock/api/resources';
import type { Deployment } from '@oarlock/api/types/apps-v1';
import type { ConfigMap, Pod } from '@oarlock/api/types/core-v1';
import { conflict, failure } from '@oarlock/api/status';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { beforeEach, describe, expect, it } from 'vitest';

const pod = (name: string, more: Partial<Pod> = {}): Pod => ({
  metadata: { name, namespace: 'default', labels: { app: 'a' } },
  spec: { containers: [{ name: 'c' }] },
  ...more,
});
const deployment = (name: string, replicas: number): Deployment => ({
  metadata: { name, namespace: 'default' },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'c' }] } },
  },
});
const inDefault = (name: string) => ({ namespace: 'default', name });

describe('memoryApi', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
  });

  it('creates objects with identity and generation, frozen, and the same in every run', async () => {
    const created = await api.client().create(deployments, deployment('web', 2));
    expect(created).toMatchObject({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: {
        resourceVersion: '1',
        generation: 1,
        uid: '00000000-0000-4000-8000-000000000001',
        creationTimestamp: '2026-01-01T00:00:00Z',
      },
    });
    expect(Object.isFrozen(created.spec?.template)).toBe(true);
    expect(await api.client().get(deployments, inDefault('web'))).toBe(created);
    await expect(api.client().create(deployments, deployment('web', 2))).rejects.toMatchObject({
      reason: 'AlreadyExists',
      message: 'deployments.apps "web" already exists',
    });
    const other = memoryApi({ clock: new FakeClock() });
    const name = async (a: typeof api) =>
      (await a.client().create(configMaps, { metadata: { generateName: 'x-', namespace: 'default' } })).metadata?.name;
    await other.client().create(deployments, deployment('web', 2));
    expect(await name(api)).toMatch(/^x-[a-z0-9]{5}$/);
    expect(await name(other)).toBe(api.objects(configMaps)[0]?.metadata?.name);
  });

  it('rejects stale updates, increments the generation for spec changes only and keeps status to its subresource', async () => {
    const client = api.client();
    const created = await client.create(deployments, deployment('web', 2));
    const scaled = await client.update(deployments, { ...created, spec: { ...created.spec!, replicas: 3 }, status: { replicas: 9 } });
    expect(scaled.metadata?.generation).toBe(2);
    expect(scaled.status).toBeUndefined();
    await expect(client.update(deployments, created)).rejects.toMatchObject({ reason: 'Conflict', code: 409 });
    const reported = await client.update(
      deployments,
      { ...scaled, spec: created.spec!, status: { replicas: 3 } },
      { subresource: 'status' },
    );
    expect(reported).toMatchObject({ metadata: { generation: 2 }, spec: { replicas: 3 }, status: { replicas: 3 } });
    expect(await client.update(deployments, reported)).toBe(reported);
    const scale = await client.get(deployments, inDefault('web'), { subresource: 'scale' });
    expect(scale).toMatchObject({ kind: 'Scale', spec: { replicas: 3 }, status: { replicas: 3, selector: 'app=web' } });
    await client.patch(deployments, inDefault('web'), 'merge', { spec: { replicas: 7 } }, { subresource: 'scale' });
    expect(api.object(deployments, inDefault('web'))?.spec?.replicas).toBe(7);
  });

  it('applies defaults if enabled', async () => {
    const strict = memoryApi({ clock, defaults: true });
    const created = await strict.client().create(deployments, deployment('web', 2));
    expect(created.spec).toMatchObject({ strategy: { type: 'RollingUpdate' }, progressDeadlineSeconds: 600 });
    const patched = await strict.client().patch(deployments, inDefault('web'), 'merge', { spec: { replicas: null } });
    expect(patched.spec?.replicas).toBe(1);
  });

  it('patches: merge, JSON and strategic merge', async () => {
    const client = api.client();
    await client.create(
      pods,
      pod('a', {
        spec: {
          containers: [
            { name: 'c', image: 'x' },
            { name: 'd', image: 'y' },
          ],
        },
      }),
    );
    await client.patch(pods, inDefault('a'), 'merge', { metadata: { labels: { app: null, tier: 'web' } } });
    await client.patch(pods, inDefault('a'), 'json', [{ op: 'add', path: '/metadata/labels/more', value: 'z' }]);
    const last = await client.patch(pods, inDefault('a'), 'strategic', { spec: { containers: [{ name: 'd', image: 'w' }] } });
    expect(last.metadata?.labels).toEqual({ tier: 'web', more: 'z' });
    expect(last.spec?.containers).toEqual([
      { name: 'c', image: 'x' },
      { name: 'd', image: 'w' },
    ]);
    await expect(client.patch(pods, inDefault('a'), 'merge', { metadata: { resourceVersion: '1' } })).rejects.toMatchObject({
      reason: 'Conflict',
    });
  });

  it('deletes pods gracefully, keeps objects with finalizers, and removes them with the last finalizer', async () => {
    const client = api.client();
    await client.create(nodes, { metadata: { name: 'n1' }, status: { phase: 'x' } });
    expect(api.object(nodes, { name: 'n1' })?.status).toBeDefined();
    await client.create(pods, pod('a'));
    await client.create(
      pods,
      {
        apiVersion: 'v1',
        kind: 'Binding',
        metadata: { name: 'a', namespace: 'default' },
        target: { kind: 'Node', name: 'n1' },
      } as unknown as Pod,
      { subresource: 'binding', name: inDefault('a') },
    );
    expect(api.object(pods, inDefault('a'))?.spec?.nodeName).toBe('n1');
    const going = await client.delete(pods, inDefault('a'));
    expect(going?.metadata).toMatchObject({ deletionTimestamp: '2026-01-01T00:00:30Z', deletionGracePeriodSeconds: 30, generation: 2 });
    await client.delete(pods, inDefault('a'), { gracePeriodSeconds: 0 });
    expect(api.object(pods, inDefault('a'))).toBeUndefined();

    const held = await client.create(configMaps, { metadata: { name: 'h', namespace: 'default', finalizers: ['x/y'] } });
    const marked = await client.delete(configMaps, inDefault('h'), { preconditions: { uid: held.metadata?.uid ?? '' } });
    expect(marked?.metadata?.deletionTimestamp).toBe('2026-01-01T00:00:00Z');
    await client.update(configMaps, { ...marked!, metadata: { ...marked!.metadata!, finalizers: [] } });
    expect(api.objects(configMaps)).toEqual([]);
    await expect(client.delete(configMaps, inDefault('h'))).rejects.toMatchObject({ reason: 'NotFound' });
  });

  it('deletes a namespace in two steps and rejects new content meanwhile', async () => {
    const client = api.client();
    await client.create(namespaces, { metadata: { name: 'gone' } });
    const ending = await client.delete(namespaces, { name: 'gone' });
    expect(ending).toMatchObject({ spec: { finalizers: ['kubernetes'] }, status: { phase: 'Terminating' } });
    await expect(client.create(configMaps, { metadata: { name: 'x', namespace: 'gone' } })).rejects.toMatchObject({ reason: 'Forbidden' });
    await client.update(namespaces, { ...ending!, spec: { finalizers: [] } }, { subresource: 'finalize' });
    expect(api.objects(namespaces)).toEqual([]);
  });

  it('lists by selectors, in pages', async () => {
    api.seed(
      pods,
      pod('a', { status: { phase: 'Running' } }),
      pod('b'),
      pod('c', { metadata: { name: 'c', namespace: 'other', labels: { app: 'b' } } }),
    );
    const names = async (options: object) => (await api.client().list(pods, options)).items.map((p) => p.metadata?.name);
    expect(await names({})).toEqual(['a', 'b', 'c']);
    expect(await names({ namespace: 'default' })).toEqual(['a', 'b']);
    expect(await names({ labelSelector: 'app in (b)' })).toEqual(['c']);
    expect(await names({ fieldSelector: 'status.phase=Running' })).toEqual(['a']);
    const first = await api.client().list(pods, { limit: 2 });
    expect(first.metadata).toMatchObject({ remainingItemCount: 1 });
    expect(await names({ limit: 2, continue: first.metadata?.continue })).toEqual(['c']);
  });

  it('reports objects on a watch as ADDED and DELETED when they start and stop matching', async () => {
    const seen: string[] = [];
    const abort = new AbortController();
    const run = (async () => {
      for await (const batch of api
        .client()
        .watch(configMaps, { labelSelector: 'on=yes', signal: abort.signal, sendInitialEvents: true })) {
        for (const { type, object } of batch) seen.push(`${type} ${object.metadata?.name ?? ''}`);
      }
    })();
    const client = api.client();
    const make = (name: string, on: string): ConfigMap => ({ metadata: { name, namespace: 'default', labels: { on } } });
    await client.create(configMaps, make('a', 'yes'));
    await client.create(configMaps, make('b', 'no'));
    await client.update(configMaps, make('b', 'yes'));
    await client.update(configMaps, make('a', 'no'));
    await client.delete(configMaps, inDefault('b'));
    await api.settle();
    abort.abort();
    await run;
    expect(seen.filter((line) => line !== 'BOOKMARK ')).toEqual(['ADDED a', 'ADDED b', 'DELETED a', 'DELETED b']);
  });

  it('fails matching requests, in order, without side effects', async () => {
    api.failNext({ verb: 'create', resource: configMaps }, failure('InternalError', 'broken'), 2);
    api.failNext(
      ({ name }) => name === 'a',
      (request) => conflict(request.resource, request.name, 'so'),
    );
    const make = () => api.client().create(configMaps, { metadata: { name: 'a', namespace: 'default' } });
    await expect(make()).rejects.toThrow('broken');
    await expect(make()).rejects.toThrow('broken');
    await make();
    await expect(api.client().get(configMaps, inDefault('a'))).rejects.toMatchObject({ reason: 'Conflict' });
    expect(api.requests.map(({ verb }) => verb)).toEqual(['create', 'create', 'create', 'get']);
  });

  it('feeds informers across dropped watches and a compacted history', async () => {
    const informer = api.informers.forResource(configMaps);
    const events: string[] = [];
    informer.addEventHandler({
      onAdd: (o) => events.push(`+${o.metadata?.name}`),
      onUpdate: (o, old) => {
        if (o !== old) events.push(`~${o.metadata?.name}`);
      },
      onDelete: (o) => events.push(`-${o.metadata?.name}`),
    });
    const client = api.client();
    const make = (name: string) => client.create(configMaps, { metadata: { name, namespace: 'default' } });
    await make('a');
    await api.settle();
    expect(informer.hasSynced).toBe(true);
    expect(informer.get('default/a')).toBe(api.object(configMaps, inDefault('a')));
    api.dropWatches();
    await make('b');
    await clock.runUntil(() => events.length === 2);
    api.failNext({ verb: 'watch' }, failure('ServiceUnavailable', 'gone'));
    api.dropWatches();
    await api.settle();
    await client.delete(configMaps, inDefault('a'));
    await make('c');
    api.compact();
    await clock.runUntil(() => events.length === 4);
    expect(events).toEqual(['+a', '+b', '+c', '-a']);
    await api.stop();
  });
});
