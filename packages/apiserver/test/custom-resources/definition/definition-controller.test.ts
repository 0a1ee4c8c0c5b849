import { afterEach, describe, expect, it } from 'vitest';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { rejectionOf } from '../../support/pipeline-fixture.ts';
import { applyTo } from '../../support/tracked-objects.ts';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { TestClock } from '../../support/pipeline-fixture.ts';
import {
  custom,
  definition,
  definitions,
  establish,
  resourceOf,
  startServer,
  stopServers,
  untilCondition,
  untilSeen,
} from '../../support/custom-resource-definitions.ts';

afterEach(stopServers);

const condition = ({ status }: CustomResourceDefinition, type: string) => status?.conditions?.find((each) => each.type === type);

describe('custom resource definition lifecycle [sig-api-machinery CustomResourceDefinition resources]', () => {
  it('serves a kind once it is established: creating/deleting custom resource definition objects works', async () => {
    const server = await startServer();
    const createdObject = definition();
    const widgets = resourceOf(createdObject);
    expect((await rejectionOf(server.create(widgets, custom(widgets, 'a')))).code).toBe(404);
    await establish(server, createdObject);
    const stored = await server.get<CustomResourceDefinition>(definitions, 'widgets.example.com');
    expect(stored.status?.storedVersions).toEqual(['v1']);
    expect(stored.status?.acceptedNames).toEqual({ plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' });
    expect(condition(stored, 'NamesAccepted')).toMatchObject({ status: 'True', reason: 'NoConflicts', message: 'no conflicts found' });
    expect(condition(stored, 'Established')).toMatchObject({ status: 'True', reason: 'InitialNamesAccepted' });
    const a = await server.create(widgets, custom(widgets, 'a', { spec: { x: 1 } }));
    expect(a).toMatchObject({ kind: 'Widget', apiVersion: 'example.com/v1', metadata: { name: 'a', namespace: 'default', generation: 1 } });
    expect((await server.list(widgets)).names).toEqual(['a']);
    expect(server.pipeline.servedKinds().find(({ kind }) => kind === 'Widget')).toMatchObject({
      group: 'example.com',
      resource: 'widgets',
    });
  });

  it('has conditions of the generation that they describe', async () => {
    const server = await startServer();
    await establish(server, definition());
    const seen = await server.watch(definitions, { fieldSelector: 'metadata.name=widgets.example.com' });
    const until = (generation: number) =>
      untilSeen<CustomResourceDefinition>(seen, (object) =>
        ['NamesAccepted', 'Established'].every(
          (type) => condition(object as CustomResourceDefinition, type)?.observedGeneration === generation,
        ),
      );
    const established = condition(await until(1), 'Established');
    await server.patch(definitions, 'widgets.example.com', { spec: { names: { shortNames: ['w'] } } });
    const changed = await until(2);
    expect(changed.status?.acceptedNames?.shortNames).toEqual(['w']);
    expect(condition(changed, 'Established')).toEqual({ ...established, observedGeneration: 2 });
    await seen.close();
  });

  it('deletes the objects of a definition, ends their watches and stops serving it; the definition can be created again', async () => {
    const server = await startServer();
    const createdObject = definition();
    const widgets = await establish(server, createdObject);
    await server.create(widgets, custom(widgets, 'a'));
    await server.create(widgets, custom(widgets, 'b', { metadata: { name: 'b', finalizers: ['example.com/hold'] } }));
    const watch = await server.watch(widgets, { resourceVersion: '0' });
    expect(await watch.take(2)).toEqual(['ADDED a', 'ADDED b']);
    const gone = await server.watch(definitions, { fieldSelector: 'metadata.name=widgets.example.com' });
    const deleted = await server.remove<CustomResourceDefinition>(definitions, 'widgets.example.com');
    expect(deleted.metadata?.finalizers).toEqual(['customresourcecleanup.apiextensions.k8s.io']);
    expect(condition(deleted, 'Terminating')).toMatchObject({ status: 'True', reason: 'InstanceDeletionPending' });
    expect(await watch.take(2)).toEqual(['DELETED a', 'MODIFIED b']);
    const rejection = await rejectionOf(server.create(widgets, custom(widgets, 'c')));
    expect([rejection.code, rejection.message]).toEqual([
      403,
      'widgets.example.com "c" is forbidden: create not allowed while custom resource definition is terminating',
    ]);
    const applied = await rejectionOf(applyTo(server, widgets, custom(widgets, 'c'), 'manager'));
    expect([applied.code, applied.message]).toEqual([rejection.code, rejection.message]);
    await applyTo(server, widgets, custom(widgets, 'b', { metadata: { name: 'b', labels: { a: 'b' } } }), 'manager');
    expect(await watch.take(1)).toEqual(['MODIFIED b']);

    await server.patch(widgets, 'b', { metadata: { finalizers: null } });
    expect(await watch.take(1)).toEqual(['DELETED b']);
    expect(await watch.next()).toBeUndefined();
    const last = await untilSeen<CustomResourceDefinition>(gone, (_, type) => type === 'DELETED');
    expect(condition(last, 'Terminating')).toMatchObject({
      status: 'False',
      reason: 'InstanceDeletionCompleted',
      message: 'removed all instances',
    });
    expect((await rejectionOf(server.list(widgets))).code).toBe(404);
    await establish(server, createdObject);
    expect((await server.list(widgets)).names).toEqual([]);
    await gone.close();
  });

  it('deletes a definition that was never established', async () => {
    const server = await startServer();
    await establish(server, definition());
    const createdObject = definition({ kind: 'Gadget', names: { plural: 'gadgets', shortNames: ['widget'] } });
    await server.create(definitions, createdObject);
    const rejection = await untilCondition(server, 'gadgets.example.com', 'NamesAccepted', 'False');
    expect(condition(rejection, 'NamesAccepted')).toMatchObject({ reason: 'ShortNamesConflict', message: '"widget" is already in use' });
    expect(condition(rejection, 'Established')).toMatchObject({
      status: 'False',
      reason: 'NotAccepted',
      message: 'not all names are accepted',
    });
    const gadgets = resourceOf(createdObject);
    expect((await rejectionOf(server.list(gadgets))).code).toBe(404);
    const gone = await server.watch(definitions, { fieldSelector: 'metadata.name=gadgets.example.com' });
    await server.remove(definitions, 'gadgets.example.com');
    const last = await untilSeen<CustomResourceDefinition>(gone, (_, type) => type === 'DELETED');
    expect(condition(last, 'Terminating')).toMatchObject({ reason: 'NeverEstablished' });
    await gone.close();
  });

  it('accepts the names of a waiting definition when their owner is deleted', async () => {
    const server = await startServer();
    await establish(server, definition());
    await server.create(definitions, definition({ kind: 'Gadget', names: { plural: 'gadgets', kind: 'Widget' } }));
    await untilCondition(server, 'gadgets.example.com', 'NamesAccepted', 'False');
    await server.remove(definitions, 'widgets.example.com');
    await untilCondition(server, 'gadgets.example.com', 'Established', 'True');
  });

  it('listing custom resource definition objects works, and a collection of them is deleted by label', async () => {
    const server = await startServer();
    for (const kind of ['Alpha', 'Beta', 'Gamma'])
      await establish(server, {
        ...definition({ kind }),
        metadata: { name: `${kind.toLowerCase()}s.example.com`, labels: { of: 'test' } },
      });
    expect((await server.list(definitions, { labelSelector: 'of=test' })).names).toHaveLength(3);
    const watch = await server.watch(definitions, { labelSelector: 'of=test' });
    await watch.take(3);
    await server.handle('deletecollection', definitions, { query: { labelSelector: 'of=test' } });
    const gone = new Set<string>();
    while (gone.size < 3) gone.add((await untilSeen(watch, (_, type) => type === 'DELETED')).metadata?.name ?? '');
    expect((await server.list(definitions)).names).toEqual([]);
    await watch.close();
  });

  it('getting/updating/patching custom resource definition status sub-resource works', async () => {
    const server = await startServer();
    await establish(server, definition());
    const current = await server.get<CustomResourceDefinition>(definitions, 'widgets.example.com', { subresource: 'status' });
    const updated = await server.update<CustomResourceDefinition>(
      definitions,
      {
        ...current,
        spec: { ...current.spec, scope: 'Cluster' },
        status: {
          ...current.status,
          conditions: [...(current.status?.conditions ?? []), { type: 'StatusUpdate', status: 'True', reason: 'E2E', message: 'Set' }],
        },
      } as CustomResourceDefinition,
      { subresource: 'status' },
    );
    expect(condition(updated, 'StatusUpdate')).toMatchObject({ message: 'Set' });
    expect(updated.spec.scope).toBe('Namespaced');
    expect(updated.metadata?.generation).toBe(1);
    const rejection = await rejectionOf(
      server.patch(definitions, 'widgets.example.com', { status: { storedVersions: ['v2'] } }, { subresource: 'status' }),
    );
    expect(rejection.message).toContain('status.storedVersions[0]: Invalid value: "v2": must appear in spec.versions');
  });

  it('watch on custom resource definition objects', async () => {
    const server = await startServer();
    const of = await establish(server, definition({ scope: 'Cluster' }));
    const [first, second] = await Promise.all(
      ['name1', 'name2'].map((name) => server.watch(of, { fieldSelector: `metadata.name=${name}` })),
    );
    for (const name of ['name1', 'name2']) await server.create(of, custom(of, name));
    for (const name of ['name1', 'name2']) await server.patch(of, name, { spec: { x: 1 } });
    for (const name of ['name1', 'name2']) await server.remove(of, name);
    expect(await first?.take(3)).toEqual(['ADDED name1', 'MODIFIED name1', 'DELETED name1']);
    expect(await second?.take(3)).toEqual(['ADDED name2', 'MODIFIED name2', 'DELETED name2']);
    await first?.close();
    await second?.close();
  });

  it('deletes objects that another server created after the first deletion, and reports that objects remain', async () => {
    const clock = new TestClock();
    const storage = new MemoryStorage({ clock });
    const server = await startServer({ storage, clock });
    const widgets = await establish(server, definition());
    await server.create(widgets, custom(widgets, 'held', { metadata: { name: 'held', finalizers: ['example.com/hold'] } }));
    const watch = await server.watch(widgets, {});
    expect(await watch.take(1)).toEqual(['ADDED held']);
    const gone = await server.watch(definitions, { fieldSelector: 'metadata.name=widgets.example.com' });
    await server.remove(definitions, 'widgets.example.com');
    expect(await watch.take(1)).toEqual(['MODIFIED held']);
    const late = { ...custom(widgets, 'late'), metadata: { name: 'late', namespace: 'default', uid: 'u' } };
    const { entries } = await storage.range({ prefix: '/registry/' });
    const key = entries.find((entry) => entry.key.endsWith('/held'))?.key.replace(/held$/, 'late') ?? '';
    await storage.commit([{ key, value: Buffer.from(JSON.stringify(late)) }], []);
    expect(await watch.take(1)).toEqual(['ADDED late']);
    await clock.advance(60_000);
    const reported = await untilSeen<CustomResourceDefinition>(
      gone,
      (object) => condition(object as CustomResourceDefinition, 'Terminating')?.reason === 'InstanceDeletionCheck',
    );
    expect(condition(reported, 'Terminating')).toMatchObject({
      status: 'True',
      message: 'could not confirm zero CustomResources remaining: context deadline exceeded',
    });
    expect(await watch.take(1)).toEqual(['DELETED late']);
    await server.patch(widgets, 'held', { metadata: { finalizers: null } });
    await untilSeen(gone, (_, type) => type === 'DELETED');
  });

  it('serves stored objects after a restart', async () => {
    const storage = new MemoryStorage({ clock: new TestClock() });
    const first = await startServer({ storage });
    const widgets = await establish(first, definition());
    await first.create(widgets, custom(widgets, 'a'));
    await first.stop();
    const second = await startServer({ storage });
    expect((await second.list(widgets)).names).toEqual(['a']);
    const watch = await second.watch(widgets, {});
    expect(await watch.take(1)).toEqual(['ADDED a']);
    await watch.close();
  });

  it('serves definitions and objects that another server created', async () => {
    const storage = new MemoryStorage({ clock: new TestClock() });
    const one = await startServer({ storage });
    const other = await startServer({ storage });
    const widgets = await establish(one, definition());
    await one.create(widgets, custom(widgets, 'a'));
    await untilCondition(other, 'widgets.example.com', 'Established', 'True');
    expect((await other.list(widgets)).names).toEqual(['a']);
  });
});
