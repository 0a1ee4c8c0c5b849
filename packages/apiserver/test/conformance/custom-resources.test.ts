import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Wire, type Thing, type ThingList } from './cluster.ts';
import { definition, definitionsPath, establish, eventually, foo } from './definitions.ts';
import { Hooks, type Json } from './hooks.ts';

let wire: Wire;
let hooks: Hooks;
let namespace: string;
beforeAll(async () => {
  [wire, hooks] = await Promise.all([Wire.start(), Hooks.start()]);
  namespace = await wire.namespace('custom');
});
afterAll(async () => {
  await wire.stop();
  await hooks.stop();
});
const objects = (group: string, plural = 'foos', version = 'v1') => `/apis/${group}/${version}/namespaces/${namespace}/${plural}`;

describe('[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin]', () => {
  it('Simple CustomResourceDefinition creating/deleting custom resource definition objects works [Conformance]', async () => {
    const path = await establish(wire, definition({ group: 'simple.example.com' }));
    await wire.remove(path);
    await wire.until(path, (object) => object === undefined);
  });

  it('Simple CustomResourceDefinition listing custom resource definition objects works [Conformance]', async () => {
    const labels = { e2e: 'list-test' };
    const createdObject = Array.from({ length: 10 }, (_, i) => definition({ group: `list-${i}.example.com`, labels }));
    await Promise.all(createdObject.map((each) => establish(wire, each)));
    const other = await establish(wire, definition({ group: 'list-other.example.com' }));
    const selected = `${definitionsPath}?labelSelector=e2e%3Dlist-test`;
    const names = async () => (await wire.list(selected)).items.map(({ metadata }) => metadata?.name);
    expect(await names()).toEqual(createdObject.map(({ metadata }) => metadata?.name));
    await wire.remove(selected);
    await eventually(names, (left) => left.length === 0);
    expect((await wire.get(other)).metadata?.deletionTimestamp).toBeUndefined();
  });

  it('Simple CustomResourceDefinition getting/updating/patching custom resource definition status sub-resource works [Conformance]', async () => {
    const path = await establish(wire, definition({ group: 'status.example.com' }));
    const { status } = await wire.get(`${path}/status`);
    expect(status?.['conditions']).toContainEqual(expect.objectContaining({ type: 'Established', status: 'True' }));
    const condition = {
      type: 'StatusUpdate',
      status: 'True',
      reason: 'E2E',
      message: 'Set by a test',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    };
    const current = await wire.get<Thing & { readonly status: { readonly conditions: readonly Json[] } }>(path);
    const updated = await wire.update(`${path}/status`, {
      ...current,
      status: { ...current.status, conditions: [...current.status.conditions, condition] },
    });
    expect(updated.status?.['conditions']).toContainEqual(condition);
    const patched = await wire.patch(`${path}/status`, {
      status: { conditions: [...current.status.conditions, { ...condition, type: 'StatusPatch' }] },
    });
    expect(patched.status?.['conditions']).toContainEqual({ ...condition, type: 'StatusPatch' });
  });

  it('should include custom resource definition resources in discovery documents [Conformance]', async () => {
    interface Group {
      readonly name: string;
      readonly versions: readonly { readonly groupVersion: string; readonly version: string }[];
    }
    const { groups } = await wire.get<{ readonly groups: readonly Group[] }>('/apis');
    const version = { groupVersion: 'apiextensions.k8s.io/v1', version: 'v1' };
    expect(groups.find(({ name }) => name === 'apiextensions.k8s.io')?.versions).toContainEqual(version);
    expect((await wire.get<Group>('/apis/apiextensions.k8s.io')).versions).toContainEqual(version);
    const { resources } = await wire.get<{ readonly resources: readonly { readonly name: string }[] }>('/apis/apiextensions.k8s.io/v1');
    expect(resources.map(({ name }) => name)).toContain('customresourcedefinitions');
  });

  it('custom resource defaulting for requests and from storage works [Conformance]', async () => {
    const group = 'defaulting.example.com';
    const properties = { a: { type: 'string' }, b: { type: 'string' } };
    const path = await establish(wire, definition({ group, schema: { type: 'object', properties } }));
    const schema = async (next: object) =>
      wire.patch(
        path,
        [{ op: 'replace', path: '/spec/versions/0/schema/openAPIV3Schema/properties', value: next }],
        'application/json-patch+json',
      );
    await wire.create(objects(group), foo(group, 'first'));
    expect(await wire.get(`${objects(group)}/first`)).not.toHaveProperty('a');
    await schema({ ...properties, a: { type: 'string', default: 'A' } });
    await eventually(
      () => wire.get(`${objects(group)}/first`),
      (object) => object['a'] === 'A',
    );
    expect(await wire.create(objects(group), foo(group, 'second'))).toMatchObject({ a: 'A' });
    await schema({ ...properties, b: { type: 'string', default: 'B' } });
    await eventually(
      () => wire.get(`${objects(group)}/second`),
      (object) => object['b'] === 'B',
    );
    // the first default was stored with the object, the second is applied on read
    expect(await wire.get(`${objects(group)}/second`)).toMatchObject({ a: 'A', b: 'B' });
    expect(await wire.get(`${objects(group)}/first`)).not.toHaveProperty('a');
  });
});

describe('[sig-api-machinery] CustomResourceDefinition Watch [Privileged:ClusterAdmin]', () => {
  it('CustomResourceDefinition Watch watch on custom resource definition objects [Conformance]', async () => {
    const group = 'watch.example.com';
    await establish(wire, definition({ group }));
    const [a, b] = await Promise.all(['a', 'b'].map((name) => wire.watch(`${objects(group)}?fieldSelector=metadata.name%3D${name}`)));
    for (const [name, watch] of [
      ['a', a],
      ['b', b],
    ] as const) {
      await wire.create(objects(group), foo(group, name));
      expect((await watch?.type('ADDED'))?.object.metadata?.name).toBe(name);
      await wire.patch(`${objects(group)}/${name}`, { metadata: { labels: { seen: 'yes' } } });
      expect((await watch?.type('MODIFIED'))?.object.metadata?.labels).toEqual({ seen: 'yes' });
      await wire.remove(`${objects(group)}/${name}`);
      expect((await watch?.type('DELETED'))?.object.metadata?.name).toBe(name);
    }
  });
});

describe('[sig-api-machinery] CustomResourceFieldSelectors [Privileged:ClusterAdmin]', () => {
  it('CustomResourceFieldSelectors MUST list and watch custom resources matching the field selector [Conformance]', async () => {
    const group = 'fields.example.com';
    // v1 has one field for host and port, v2 has two
    const clientConfig = hooks.at('/convert', ({ request }) => ({
      result: { status: 'Success' },
      convertedObjects: request.objects?.map((object) => {
        const { hostPort, host, port, ...rest } = object as Record<string, string | undefined>;
        const desired = String(request['desiredAPIVersion']);
        const [before = '', after = ''] = (hostPort ?? '').split(':');
        return {
          ...rest,
          apiVersion: desired,
          ...(desired.endsWith('v2') ? { host: before, port: after } : { hostPort: `${host}:${port}` }),
        };
      }),
    }));
    const text = { type: 'string' };
    await establish(
      wire,
      definition({
        group,
        versions: [
          {
            name: 'v1',
            selectableFields: [{ jsonPath: '.hostPort' }],
            schema: { openAPIV3Schema: { type: 'object', properties: { hostPort: text } } },
          },
          {
            name: 'v2',
            selectableFields: [{ jsonPath: '.host' }],
            schema: { openAPIV3Schema: { type: 'object', properties: { host: text, port: text } } },
          },
        ],
        more: { conversion: { strategy: 'Webhook', webhook: { clientConfig, conversionReviewVersions: ['v1'] } } },
      }),
    );
    const one = `${objects(group)}?fieldSelector=hostPort%3Dhost1:80`;
    const two = `${objects(group, 'foos', 'v2')}?fieldSelector=host%3Dhost1`;
    const [seenOne, seenTwo] = await Promise.all([wire.watch(one), wire.watch(two)]);
    for (const [name, hostPort] of [
      ['a', 'host1:80'],
      ['b', 'host1:8080'],
      ['c', 'host2:80'],
    ] as const)
      await wire.create(objects(group), foo(group, name, { hostPort }));
    const names = async (path: string) => (await wire.list(path)).items.map(({ metadata }) => metadata?.name);
    expect(await names(one)).toEqual(['a']);
    expect(await names(two)).toEqual(['a', 'b']);
    expect(await seenOne.type('ADDED')).toMatchObject({
      object: { apiVersion: `${group}/v1`, metadata: { name: 'a' }, hostPort: 'host1:80' },
    });
    for (const name of ['a', 'b']) expect(await seenTwo.type('ADDED')).toMatchObject({ object: { metadata: { name }, host: 'host1' } });
    await wire.patch(`${objects(group)}/a`, { hostPort: 'host3:80' });
    expect((await seenOne.next()).type).toBe('DELETED');
    expect((await seenTwo.next()).type).toBe('DELETED');
    expect(await names(two)).toEqual(['b']);
    await wire.remove(two);
    expect(await seenTwo.next()).toMatchObject({ type: 'DELETED', object: { metadata: { name: 'b' } } });
    expect(await names(objects(group))).toEqual(['a', 'c']);
  });
});

describe('[sig-api-machinery] FieldValidation', () => {
  it('should detect unknown metadata fields in both the root and embedded object of a CR [Conformance]', async () => {
    const group = 'metadata.example.com';
    await establish(
      wire,
      definition({
        group,
        schema: {
          type: 'object',
          properties: {
            spec: {
              type: 'object',
              properties: {
                template: {
                  type: 'object',
                  'x-kubernetes-embedded-resource': true,
                  properties: { metadata: { type: 'object', properties: { name: { type: 'string' } } } },
                },
              },
            },
          },
        },
      }),
    );
    const body = {
      ...foo(group, 'mytest'),
      metadata: { name: 'mytest', unknownMeta: 'x' },
      spec: { template: { apiVersion: 'foo/v1', kind: 'Sub', metadata: { name: 'sub', unknownSubMeta: 'y' } } },
    };
    const { status } = await wire.rejectionOf(wire.create(`${objects(group)}?fieldValidation=Strict`, body));
    expect(status.code).toBe(400);
    expect(status.message).toContain('unknown field "metadata.unknownMeta"');
    expect(status.message).toContain('unknown field "spec.template.metadata.unknownSubMeta"');
    await wire.create(`${objects(group)}?fieldValidation=Ignore`, body);
    expect((await wire.get<ThingList>(objects(group))).items[0]?.metadata).not.toHaveProperty('unknownMeta');
  });

  it('should detect unknown metadata fields of a typed object [Conformance]', async () => {
    const deployment = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'typed', unknownMeta: 'x', labels: { app: 'nginx' } },
      spec: {
        selector: { matchLabels: { app: 'nginx' } },
        template: { metadata: { labels: { app: 'nginx' } }, spec: { containers: [{ name: 'nginx', image: 'nginx' }] } },
      },
    };
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
    const created = await wire.rejectionOf(wire.create(`${path}?fieldValidation=Strict`, deployment));
    expect(created.status.message).toContain('strict decoding error: unknown field "metadata.unknownMeta"');
    const applied = await wire.rejectionOf(wire.apply(`${path}/typed`, deployment, 'fieldManager=e2e&fieldValidation=Strict'));
    expect(applied.status.message).toMatch(/unknownMeta: field not declared in schema|unknown field "metadata.unknownMeta"/);
  });
});
