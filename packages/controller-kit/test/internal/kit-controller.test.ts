import { configMaps, namespaces, secrets, services } from '@oarlock/api/resources';
import { configMap, namespace } from '@oarlock/testing/objects';
import { testController } from '@oarlock/testing/test-controller';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { controllerFor } from '../../src/controller-for.ts';
import { customResource } from '../../src/custom-resource.ts';
import { conditions } from '../../src/fields.ts';

const Task = customResource({
  group: 'example.com',
  kind: 'Task',
  version: {
    name: 'v1',
    spec: z.object({ name: z.string().default('out'), namespace: z.string().optional() }),
    status: z.object({ done: z.boolean().optional(), conditions: conditions().optional() }),
  },
});
const task = (spec: { readonly name?: string; readonly namespace?: string } = {}) =>
  Task.object({ namespace: 'default', name: 'job' }, spec);

describe('a controller of the kit', () => {
  it('keeps an object until its finalizer is done', async () => {
    const steps: string[] = [];
    const plugin = controllerFor(Task, { id: 'controller-task' })
      .finalizer('example.com/task', async () => {
        steps.push('finalize');
        if (steps.filter((step) => step === 'finalize').length === 1) throw new Error('not yet');
        return steps.filter((step) => step === 'finalize').length === 2 ? { requeueAfterMs: 1_000 } : undefined;
      })
      .reconcile(async ({ metadata }) => void steps.push(`reconcile ${metadata.finalizers?.join() ?? 'without'}`));
    await using test = await testController(plugin);
    expect((await test.create(Task.resource, task())).metadata.finalizers).toEqual(['example.com/task']);
    expect(steps[0]).toBe('reconcile example.com/task');
    await test.api.client().delete(Task.resource, { namespace: 'default', name: 'job' });
    await test.settle();
    expect(test.errors).toEqual([new Error('not yet')]);
    await test.advance(5);
    expect(test.api.objects(Task.resource)).toHaveLength(1);
    await test.advance(1_000);
    expect(test.api.objects(Task.resource)).toEqual([]);
    expect(steps.filter((step) => step === 'finalize')).toHaveLength(3);
  });

  it('does not reconcile an object that is being deleted', async () => {
    const seen: (string | undefined)[] = [];
    const plugin = controllerFor(Task, { id: 'controller-task' }).reconcile(async ({ metadata }) => void seen.push(metadata.name));
    const deleted = { ...task(), metadata: { ...task().metadata, finalizers: ['other.com/x'], deletionTimestamp: '2026-01-01T00:00:00Z' } };
    await using test = await testController(plugin, { seed: (api) => api.seed(Task.resource, deleted) });
    expect([seen, test.errors]).toEqual([[], []]);
  });

  it('reconciles owners of changed objects, by the controller or by every owner', async () => {
    const plan = (matchEveryOwner: boolean) => {
      const reconciles: string[] = [];
      const plugin = controllerFor(Task, { id: 'controller-task' })
        .owns(configMaps, { matchEveryOwner })
        .watches(namespaces, (changed, reconciled) => (changed.metadata?.name === 'wake' ? reconciled.list().map(() => 'default/job') : []))
        .reconcile(async ({ metadata }) => void reconciles.push(metadata.name ?? ''));
      return { plugin, reconciles };
    };
    for (const [matchEveryOwner, expected] of [
      [false, 1],
      [true, 2],
    ] as const) {
      const { plugin, reconciles } = plan(matchEveryOwner);
      await using test = await testController(plugin);
      const { uid = '' } = (await test.create(Task.resource, task())).metadata;
      reconciles.length = 0;
      const ref = { apiVersion: 'example.com/v1beta1', kind: 'Task', name: 'job', uid };
      const owned = configMap({ name: 'a' });
      await test.create(configMaps, { ...owned, metadata: { ...owned.metadata, ownerReferences: [{ ...ref, controller: true }] } });
      await test.create(configMaps, { ...owned, metadata: { ...owned.metadata, name: 'b', ownerReferences: [ref] } });
      await test.create(configMaps, {
        ...owned,
        metadata: { ...owned.metadata, name: 'c', ownerReferences: [{ ...ref, apiVersion: 'other.com/v1', controller: true }] },
      });
      expect(reconciles).toHaveLength(expected);
      await test.create(namespaces, namespace({ name: 'wake' }));
      expect(reconciles).toHaveLength(expected + 1);
    }
  });

  it('sends no request for what is applied already, and removes fields that the configuration no longer has', async () => {
    let data: Record<string, string> = { a: '1', b: '2' };
    const plugin = controllerFor(Task, { id: 'controller-task' })
      .owns(configMaps)
      .reconcile(async ({ spec }, { apply, setStatus, owned }) => {
        await apply(configMaps, { metadata: { name: spec.name }, data });
        await setStatus({ done: owned(configMaps).length > 0 }, [{ type: 'Ready', status: 'True', reason: 'Done', message: '' }]);
        return { requeueAfterMs: 1_000 };
      });
    await using test = await testController(plugin);
    await test.create(Task.resource, task());
    const status = {
      done: true,
      conditions: [
        { type: 'Ready', status: 'True', reason: 'Done', message: '', observedGeneration: 1, lastTransitionTime: '2026-01-01T00:00:00Z' },
      ],
    };
    expect(test.api.objects(Task.resource)[0]?.status).toEqual(status);
    const writes = () => test.api.requests.filter(({ verb }) => verb !== 'get' && verb !== 'list' && verb !== 'watch').length;
    const before = writes();
    await test.advance(10_000);
    expect([writes() - before, test.api.objects(Task.resource)[0]?.status]).toEqual([0, status]);
    data = { a: '1' };
    await test.advance(1_000);
    expect([writes() - before, test.api.objects(configMaps)[0]?.data]).toEqual([1, { a: '1' }]);
  });

  it('rejects owned objects that another controller owns, or that the garbage collector would delete', async () => {
    const plugin = controllerFor(Task, { id: 'controller-task' })
      .owns(configMaps)
      .owns(namespaces)
      .reconcile(async ({ spec }, { apply, lister }) => {
        if (spec.name === 'cluster') await apply(namespaces, { metadata: { name: 'x' } });
        else if (spec.name === 'undeclared') await apply(secrets, { metadata: { name: 'x' } });
        else if (spec.name === 'unwatched') lister(services);
        else await apply(configMaps, { metadata: { name: spec.name, ...(spec.namespace !== undefined && { namespace: spec.namespace }) } });
      });
    const other = { apiVersion: 'example.com/v1', kind: 'Task', name: 'other', uid: 'u', controller: true };
    const foreign = configMap({ name: 'taken' });
    const cases = [
      [{ name: 'taken' }, 'Object default/taken is already owned by another Task controller other'],
      [
        { name: 'x', namespace: 'elsewhere' },
        "cross-namespace owner references are disallowed, owner's namespace default, obj's namespace elsewhere",
      ],
      [{ name: 'cluster' }, "cluster-scoped resource must not have a namespace-scoped owner, owner's namespace default"],
      [{ name: 'undeclared' }, 'the controller does not own secrets: add .owns()'],
      [{ name: 'unwatched' }, 'the controller does not declare services: add .owns() or .watches()'],
    ] as const;
    for (const [spec, message] of cases) {
      await using test = await testController(plugin, {
        seed: (api) => api.seed(configMaps, { ...foreign, metadata: { ...foreign.metadata, ownerReferences: [other] } }),
      });
      await test.create(Task.resource, task(spec));
      expect(test.errors).toEqual([new Error(message)]);
    }
  });

  it('owns and watches custom resources', async () => {
    const Part = customResource({ group: 'example.com', kind: 'Part', version: { name: 'v1', spec: z.object({ of: z.string() }) } });
    const plugin = controllerFor(Task, { id: 'controller-task' })
      .owns(Part)
      .watches(Part, ({ spec }) => [`default/${spec.of}`])
      .reconcile(async ({ metadata }, { apply, owned }) => {
        if (owned(Part.resource).length === 0) await apply(Part.resource, { metadata: { name: 'part' }, spec: { of: metadata.name } });
      });
    await using test = await testController(plugin);
    await test.create(Task.resource, task());
    expect(test.api.objects(Part.resource).map(({ spec }) => spec.of)).toEqual(['job']);
    expect(plugin.declares?.['rules']).toContain('get,create,patch,delete | example.com | parts');
  });

  it('reconciles what a watched object named before and after a change', async () => {
    const reconciles: string[] = [];
    const plugin = controllerFor(Task, { id: 'controller-task' })
      .watches(configMaps, ({ data }) => (data?.['task'] === undefined ? [] : [`default/${data['task']}`]))
      .reconcile(async ({ metadata }) => void reconciles.push(metadata.name ?? ''));
    await using test = await testController(plugin);
    for (const name of ['before', 'after']) await test.create(Task.resource, Task.object({ namespace: 'default', name }, {}));
    const named = await test.create(configMaps, { ...configMap({ name: 'names' }), data: { task: 'before' } });
    reconciles.length = 0;
    await test.api.client('user').update(configMaps, { ...named, data: { task: 'after' } });
    await test.settle();
    expect(reconciles.toSorted()).toEqual(['after', 'before']);
  });

  it('records events about the object, with its kind', async () => {
    const plugin = controllerFor(Task, { id: 'controller-task' }).reconcile(async (_, { event }) => event('Normal', 'Seen', 'a task'));
    await using test = await testController(plugin);
    await test.create(Task.resource, task());
    expect(test.events).toMatchObject([
      { type: 'Normal', reason: 'Seen', message: 'a task', about: { apiVersion: 'example.com/v1', kind: 'Task' } },
    ]);
  });
});
