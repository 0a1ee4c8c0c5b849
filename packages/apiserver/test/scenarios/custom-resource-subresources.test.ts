import { afterEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import type { CustomResourceDefinition, JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { printerFor } from '../../src/endpoints/negotiation/table/printers.ts';
import { rejectionOf } from '../support/pipeline-fixture.ts';
import { compileJsonPath } from '../../src/custom-resources/internal/json-path.ts';
import { allow, deny, type AdmissionPlugin } from '@oarlock/spi/admission';
import { anything, custom, definition, definitions, establish, startServer, stopServers } from '../support/custom-resource-definitions.ts';

afterEach(stopServers);

const schema: JSONSchemaProps = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        replicas: { type: 'integer', maximum: 9 },
        color: { type: 'string' },
        on: { type: 'boolean' },
        count: { type: 'integer' },
      },
    },
    status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  },
};
const version: Partial<CustomResourceDefinition['spec']['versions'][number]> = {
  schema: { openAPIV3Schema: schema },
  subresources: {
    status: {},
    scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas', labelSelectorPath: '.status.selector' },
  },
};
interface Widget extends KubeObject {
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

describe('custom resource status', () => {
  it('is written only through its subresource; only other changes increment the generation', async () => {
    const server = await startServer();
    const widgets = await establish(server, definition({ version }));
    const created = await server.create<Widget>(widgets, custom(widgets, 'a', { spec: { color: 'red' }, status: { seen: 1 } }));
    expect(created.status).toBeUndefined();
    const updated = await server.update<Widget>(widgets, { ...created, spec: { color: 'blue' }, status: { seen: 2 } } as Widget);
    expect([updated.status, updated.metadata?.generation]).toEqual([undefined, 2]);
    const reported = await server.update<Widget>(
      widgets,
      { ...updated, metadata: { ...updated.metadata, labels: { a: 'b' } }, spec: { color: 'green' }, status: { seen: 3 } } as Widget,
      { subresource: 'status' },
    );
    expect([reported.spec, reported.status, reported.metadata?.generation]).toEqual([{ color: 'blue' }, { seen: 3 }, 2]);
    expect(reported.metadata?.labels).toBeUndefined();
    const patched = await server.patch<Widget>(widgets, 'a', { status: { seen: 4 }, spec: { color: 'x' } }, { subresource: 'status' });
    expect([patched.spec, patched.status]).toEqual([{ color: 'blue' }, { seen: 4 }]);
    const labelled = await server.patch<Widget>(widgets, 'a', { metadata: { labels: { x: 'y' } } });
    expect([labelled.metadata?.generation, labelled.status]).toEqual([2, { seen: 4 }]);
  });

  it('is an ordinary field without the subresource', async () => {
    const server = await startServer();
    const widgets = await establish(server, definition());
    const created = await server.create<Widget>(widgets, custom(widgets, 'a', { status: { seen: 1 } }));
    expect(created.status).toEqual({ seen: 1 });
    const updated = await server.patch<Widget>(widgets, 'a', { status: { seen: 2 } });
    expect([updated.status, updated.metadata?.generation]).toEqual([{ seen: 2 }, 2]);
    expect((await rejectionOf(server.get(widgets, 'a', { subresource: 'status' }))).code).toBe(404);
  });
});

describe('custom resource scale', () => {
  it('reads and writes the paths of the definition', async () => {
    const server = await startServer();
    const widgets = await establish(server, definition({ version }));
    await server.create(widgets, custom(widgets, 'a', { spec: { replicas: 2 } }));
    await server.patch(widgets, 'a', { status: { replicas: 1, selector: 'a=b' } }, { subresource: 'status' });
    const scale = await server.get<Widget>(widgets, 'a', { subresource: 'scale' });
    expect(scale).toMatchObject({
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: { name: 'a', namespace: 'default' },
      spec: { replicas: 2 },
      status: { replicas: 1, selector: 'a=b' },
    });
    const scaled = await server.update<Widget>(widgets, { ...scale, spec: { replicas: 5 } } as Widget, { subresource: 'scale' });
    expect(scaled.spec).toEqual({ replicas: 5 });
    const patched = await server.patch<Widget>(widgets, 'a', { spec: { replicas: 6 } }, { subresource: 'scale' });
    expect(patched.spec).toEqual({ replicas: 6 });
    const stored = await server.get<Widget>(widgets, 'a');
    expect([stored.spec, stored.status, stored.metadata?.generation]).toEqual([{ replicas: 6 }, { replicas: 1, selector: 'a=b' }, 3]);
    const negative = await rejectionOf(server.patch(widgets, 'a', { spec: { replicas: -1 } }, { subresource: 'scale' }));
    expect(negative.message).toContain('spec.replicas: Invalid value: -1: must be greater than or equal to 0');
    expect((await rejectionOf(server.patch(widgets, 'a', { spec: { replicas: 10 } }, { subresource: 'scale' }))).code).toBe(422);
    const stale = { ...scale, spec: { replicas: 1 } } as Widget;
    expect((await rejectionOf(server.update(widgets, stale, { subresource: 'scale' }))).code).toBe(409);
  });
});

describe('admission of the scale of a custom resource', () => {
  const scaled = {
    ...version,
    subresources: { status: {}, scale: { specReplicasPath: '.spec.size', statusReplicasPath: '.status.size' } },
  };
  const open = async (plugin: Omit<AdmissionPlugin, 'matches'>) => {
    const server = await startServer({
      admission: [{ matches: [{ resources: ['widgets.example.com/scale'], operations: ['UPDATE'] }], ...plugin }],
    });
    const widgets = await establish(
      server,
      definition({ schema: anything, version: { ...scaled, schema: { openAPIV3Schema: anything } } }),
    );
    await server.create(widgets, custom(widgets, 'a', { spec: { size: 2, color: 'red' } }));
    return { server, widgets };
  };
  interface ScaleLike extends KubeObject {
    readonly spec?: { readonly replicas?: number };
  }

  it('decides on Scales, wherever the replicas are in the object', async () => {
    const seen: unknown[] = [];
    const { server, widgets } = await open({
      validate: ({ object, old }) => {
        seen.push([object, old].map((each) => [each?.apiVersion, each?.kind, (each as ScaleLike).spec?.replicas]));
        return ((object as ScaleLike).spec?.replicas ?? 0) > 5 ? deny('at most 5') : allow;
      },
    });
    const writes: readonly (() => Promise<unknown>)[] = [
      () => server.patch(widgets, 'a', { spec: { replicas: 9 } }, { subresource: 'scale' }),
      () => server.patch(widgets, 'a', [{ op: 'replace', path: '/spec/replicas', value: 9 }], { subresource: 'scale', patchType: 'json' }),
      () =>
        server.patch(
          widgets,
          'a',
          { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'a' }, spec: { replicas: 9 } },
          { subresource: 'scale', patchType: 'apply', query: { fieldManager: 'x', force: 'true' } },
        ),
      async () => {
        const scale = await server.get<ScaleLike>(widgets, 'a', { subresource: 'scale' });
        await server.update(widgets, { ...scale, spec: { replicas: 9 } } as KubeObject, { subresource: 'scale' });
      },
    ];
    for (const write of writes) expect((await rejectionOf(write())).message).toContain('at most 5');
    const views = [
      ['autoscaling/v1', 'Scale', 9],
      ['autoscaling/v1', 'Scale', 2],
    ];
    expect(seen).toEqual(writes.map(() => views));
    expect((await server.get<Widget>(widgets, 'a')).spec).toEqual({ size: 2, color: 'red' });
  });

  it('can change the replicas, and nothing else', async () => {
    const { server, widgets } = await open({
      mutate: ({ object }) =>
        ({
          ...object,
          metadata: { ...object?.metadata, labels: { attack: 'a' }, finalizers: ['example.com/attack'] },
          spec: { ...(object as ScaleLike).spec, replicas: 4, color: 'blue', size: 99 },
        }) as KubeObject,
    });
    await server.patch(widgets, 'a', { spec: { replicas: 9 } }, { subresource: 'scale' });
    const { spec, metadata } = await server.get<Widget>(widgets, 'a');
    expect([spec, metadata?.labels, metadata?.finalizers]).toEqual([{ size: 4, color: 'red' }, undefined, undefined]);
  });

  it.each([-1, 'many', {}])('cannot make invalid replicas of them: %j', async (replicas) => {
    const { server, widgets } = await open({
      mutate: ({ object }) => ({ ...object, spec: { replicas } }) as KubeObject,
    });
    const rejection = await rejectionOf(server.patch(widgets, 'a', { spec: { replicas: 3 } }, { subresource: 'scale' }));
    expect(rejection.code).toBeGreaterThanOrEqual(422);
    expect((await server.get<Widget>(widgets, 'a')).spec).toEqual({ size: 2, color: 'red' });
  });
});

describe('custom resource columns', () => {
  it('show the values of their paths', async () => {
    const server = await startServer();
    const columns = [
      { name: 'Color', type: 'string', jsonPath: '.spec.color' },
      { name: 'Replicas', type: 'integer', jsonPath: '.spec.replicas', priority: 1, description: 'How many.' },
      { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      { name: 'Since', type: 'date', jsonPath: '.metadata.creationTimestamp' },
      { name: 'None', type: 'string', jsonPath: '.spec.none' },
    ];
    const widgets = await establish(server, definition({ version: { ...version, additionalPrinterColumns: columns } }));
    await server.create(widgets, custom(widgets, 'a', { spec: { color: 'red', replicas: 2 } }));
    await server.patch(
      widgets,
      'a',
      {
        status: {
          conditions: [
            { type: 'Other', status: 'False' },
            { type: 'Ready', status: 'True' },
          ],
        },
      },
      { subresource: 'status' },
    );
    const listed = await server.list(widgets);
    const printer = printerFor(listed.resource);
    expect(printer.columns.map(({ name, type, priority }) => [name, type, priority])).toEqual([
      ['Name', 'string', 0],
      ['Color', 'string', 0],
      ['Replicas', 'integer', 1],
      ['Ready', 'string', 0],
      ['Since', 'date', 0],
      ['None', 'string', 0],
    ]);
    expect(printer.cells(listed.items[0]?.object ?? {}, server.clock.now() + 65_000)).toEqual(['a', 'red', 2, 'True', '65s', null]);
  });

  it.each([
    ['.a.b', [1]],
    ['.list[0].x', ['y']],
    ['.list[*].x', ['y', 'z']],
    ['.list[-1:].x', ['z']],
    ['.list[?(@.n>1)].x', ['z']],
    ["['a']['b']", [1]],
    ['.dotted\\.key', [true]],
    ['..x', ['y', 'z']],
    ['.nothing.here', []],
  ])('find %s', (path, found) => {
    const object = {
      a: { b: 1 },
      list: [
        { x: 'y', n: 1 },
        { x: 'z', n: 2 },
      ],
      'dotted.key': true,
    };
    expect(compileJsonPath(path)?.(object)).toEqual(found);
  });
});

describe('selectable fields [sig-api-machinery CustomResourceFieldSelectors]', () => {
  it('select in lists, watches and collection deletions', async () => {
    const server = await startServer();
    const selectableFields = [{ jsonPath: '.spec.color' }, { jsonPath: '.spec.on' }, { jsonPath: '.spec.count' }];
    const widgets = await establish(server, definition({ version: { ...version, selectableFields } }));
    await server.create(widgets, custom(widgets, 'a', { spec: { color: 'red', on: true, count: 1 } }));
    await server.create(widgets, custom(widgets, 'b', { spec: { color: 'blue' } }));
    expect((await server.list(widgets, { fieldSelector: 'spec.color=red' })).names).toEqual(['a']);
    expect((await server.list(widgets, { fieldSelector: 'spec.on=true,spec.count=1' })).names).toEqual(['a']);
    expect((await server.list(widgets, { fieldSelector: 'spec.color!=red' })).names).toEqual(['b']);
    const unknown = await rejectionOf(server.list(widgets, { fieldSelector: 'spec.replicas=1' }));
    expect([unknown.code, unknown.message]).toEqual([400, 'field label not supported: spec.replicas']);
    const watch = await server.watch(widgets, { fieldSelector: 'spec.color=blue' });
    expect(await watch.take(1)).toEqual(['ADDED b']);
    await server.patch(widgets, 'a', { spec: { color: 'blue' } });
    await server.patch(widgets, 'b', { spec: { color: 'green' } });
    expect(await watch.take(2)).toEqual(['ADDED a', 'DELETED b']);
    await server.handle('deletecollection', widgets, { namespace: 'default', query: { fieldSelector: 'spec.color=blue' } });
    expect((await server.list(widgets)).names).toEqual(['b']);
    await watch.close();
  });
});

describe('custom resource metadata', () => {
  it('supports generated names, label selectors, finalizers, JSON patches and dry runs', async () => {
    const server = await startServer();
    const widgets = await establish(server, definition({ scope: 'Cluster' }));
    const created = await server.create(widgets, {
      apiVersion: 'example.com/v1',
      kind: 'Widget',
      metadata: { generateName: 'w-', labels: { x: '1' } },
    });
    const name = created.metadata?.name ?? '';
    expect(name).toMatch(/^w-[a-z0-9]{5}$/);
    expect((await server.list(widgets, { labelSelector: 'x in (1,2)' })).names).toEqual([name]);
    const patched = await server.patch<Widget>(widgets, name, [{ op: 'add', path: '/spec', value: { a: [1] } }], { patchType: 'json' });
    expect(patched.spec).toEqual({ a: [1] });
    await server.create(widgets, custom(widgets, 'dry'), { query: { dryRun: 'All' } });
    expect((await server.list(widgets)).names).toEqual([name]);
    await server.patch(widgets, name, { metadata: { finalizers: ['example.com/x'] } });
    const deleting = await server.remove(widgets, name);
    expect(deleting.metadata?.deletionTimestamp).toBeDefined();
    await server.patch(widgets, name, { metadata: { finalizers: [] } });
    expect((await rejectionOf(server.get(widgets, name))).code).toBe(404);
    await server.create(widgets, custom(widgets, 'versioned'));
    const blind = await rejectionOf(server.update(widgets, custom(widgets, 'versioned', { spec: { a: 1 } })));
    expect([blind.code, blind.message]).toEqual([422, expect.stringContaining('metadata.resourceVersion: Invalid value: ')]);
    const wrong = await rejectionOf(server.create(widgets, custom(widgets, 'Bad_Name')));
    expect(wrong.message).toContain('metadata.name: Invalid value: "Bad_Name"');
    const typed = await rejectionOf(
      server.create(widgets, { ...custom(widgets, 'a'), metadata: { name: 'a', labels: { a: 1 } } } as never),
    );
    expect(typed.code).toBe(400);
    expect((await rejectionOf(server.patch(definitions, 'widgets.example.com', { spec: { group: 'other.com' } }))).message).toContain(
      'spec.group: Invalid value: "other.com": field is immutable',
    );
  });
});
