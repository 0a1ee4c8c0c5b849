import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyPatch, json, Wire } from './cluster.ts';
import { definition, establish, eventually, foo, open } from './definitions.ts';
import type { Json } from './hooks.ts';

/** Publication of the kinds of definitions: discovery and OpenAPI. */
let wire: Wire;
let namespace: string;
beforeAll(async () => {
  wire = await Wire.start();
  namespace = await wire.namespace('published');
});
afterAll(() => wire.stop());
const objects = (group: string, plural = 'foos', version = 'v1') => `/apis/${group}/${version}/namespaces/${namespace}/${plural}`;

describe('[sig-api-machinery] AggregatedDiscovery', () => {
  interface Documents {
    readonly items: readonly {
      readonly metadata: { readonly name?: string };
      readonly versions: readonly { readonly version: string; readonly resources: readonly { readonly resource: string }[] }[];
    }[];
  }
  const form = (version: string) => `${json};g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;

  it.each(['v2', 'v2beta1'])(
    'should support raw aggregated discovery request for CRDs [Conformance], and should support aggregated discovery interface for CRDs: %s',
    async (version) => {
      const group = `discovered-${version}.example.com`;
      await establish(wire, definition({ group, versions: [{ name: 'v1' }, { name: 'v2' }] }));
      const found = await eventually(
        async () => {
          const { headers, bytes } = await wire.call('GET', '/apis', { accept: form(version) });
          expect(headers['content-type']).toBe(form(version));
          return (JSON.parse(bytes.toString()) as Documents).items.find(({ metadata }) => metadata.name === group);
        },
        (item) => item !== undefined,
      );
      expect(found?.versions.map((each) => [each.version, each.resources[0]?.resource])).toEqual([
        ['v2', 'foos'],
        ['v1', 'foos'],
      ]);
    },
  );
});

describe('[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin]', () => {
  type Schema = Json & { readonly properties?: Readonly<Record<string, Json>> };
  const named = (group: string, version: string, kind: string) => `${group.split('.').toReversed().join('.')}.${version}.${kind}`;
  const two = async () => (await wire.get<{ readonly definitions: Readonly<Record<string, Schema>> }>('/openapi/v2')).definitions;
  const three = async (group: string, version: string) => {
    const { code, bytes } = await wire.call('GET', `/openapi/v3/apis/${group}/${version}`);
    return code === 404
      ? undefined
      : (JSON.parse(bytes.toString()) as { readonly components: { readonly schemas: Readonly<Record<string, Schema>> } }).components
          .schemas;
  };
  const published = (group: string, version: string, kind = 'Foo') =>
    eventually(
      async () => [(await two())[named(group, version, kind)], (await three(group, version))?.[named(group, version, kind)]] as const,
      ([old, now]) => old !== undefined && now !== undefined,
    );
  const schema = {
    type: 'object',
    description: 'Foo CRD for Testing',
    properties: {
      spec: {
        type: 'object',
        description: 'Specification of Foo',
        properties: {
          bars: {
            type: 'array',
            description: 'List of Bars and their specs.',
            items: {
              type: 'object',
              required: ['name'],
              properties: {
                name: { type: 'string', description: 'Name of Bar.' },
                age: { type: 'string' },
                feeling: { type: 'string', enum: ['Great', 'Down'] },
              },
            },
          },
        },
      },
    },
  };

  it('works for CRD with validation schema [Conformance]', async () => {
    const group = 'valid.example.com';
    await establish(wire, definition({ group, schema }));
    for (const seen of await published(group, 'v1'))
      expect(seen).toMatchObject({
        description: 'Foo CRD for Testing',
        properties: {
          spec: { properties: { bars: { items: { required: ['name'], properties: { name: { description: 'Name of Bar.' } } } } } },
        },
      });
    const strict = `${objects(group)}?fieldValidation=Strict`;
    const bars = (...list: readonly object[]) => ({ spec: { bars: list } });
    await wire.create(strict, foo(group, 'good', bars({ name: 'test', age: '10' })));
    expect((await wire.rejectionOf(wire.create(strict, foo(group, 'bad', bars({ name: 'test', unknown: 1 }))))).status.message).toContain(
      'strict decoding error: unknown field "spec.bars[0].unknown"',
    );
    expect((await wire.rejectionOf(wire.create(strict, foo(group, 'bad', bars({ age: '10' }))))).status.message).toContain(
      'spec.bars[0].name: Required value',
    );
    const enumerated = await wire.rejectionOf(wire.create(strict, foo(group, 'bad', bars({ name: 'a', feeling: 'Fine' }))));
    expect(enumerated.status.message).toContain('spec.bars[0].feeling: Unsupported value: "Fine": supported values: "Great", "Down"');
    await wire.apply(
      `${objects(group)}/good`,
      foo(group, 'good', bars({ name: 'test', age: '11' })),
      'fieldManager=e2e&force=true&fieldValidation=Strict',
    );
  });

  it.each([
    ['works for CRD without validation schema [Conformance]', 'without.example.com', open, {}],
    [
      'works for CRD preserving unknown fields at the schema root [Conformance]',
      'root.example.com',
      { ...open, properties: {} },
      { a: 1, b: [{ c: 'd' }] },
    ],
    [
      'works for CRD preserving unknown fields in an embedded object [Conformance]',
      'embedded.example.com',
      { type: 'object', properties: { spec: { ...open, description: 'Specification of Waldo' } } },
      { spec: { a: null, b: [{ c: 'd' }] } },
    ],
  ] as const)('%s', async (_, group, of, more) => {
    await establish(wire, definition({ group, schema: of }));
    const [old, now] = await published(group, 'v1');
    expect(now).toMatchObject({ 'x-kubernetes-group-version-kind': [{ group, kind: 'Foo', version: 'v1' }] });
    // v2 cannot express preserved unknown fields: a schema that preserves them at the root is omitted, so that clients reject nothing
    if ('x-kubernetes-preserve-unknown-fields' in of)
      expect(old).toEqual({ type: 'object', 'x-kubernetes-group-version-kind': [{ group, kind: 'Foo', version: 'v1' }] });
    else expect(JSON.stringify(old)).toContain('"x-kubernetes-preserve-unknown-fields":true');
    const created = await wire.create(`${objects(group)}?fieldValidation=Strict`, foo(group, 'any', more));
    expect(created).toMatchObject(more);
    await wire.patch(`${objects(group)}/any?fieldManager=e2e&fieldValidation=Strict&force=true`, foo(group, 'any', more), applyPatch);
  });

  it('works for multiple CRDs of different groups [Conformance]', async () => {
    for (const group of ['one.example.com', 'two.example.com']) await establish(wire, definition({ group, schema }));
    for (const group of ['one.example.com', 'two.example.com']) await published(group, 'v1');
  });

  it('works for multiple CRDs of same group but different versions [Conformance]', async () => {
    await establish(wire, definition({ group: 'versions.example.com', schema, versions: [{ name: 'v2' }, { name: 'v3' }] }));
    for (const version of ['v2', 'v3']) await published('versions.example.com', version);
    await establish(wire, definition({ group: 'versions.example.com', kind: 'Bar', schema, versions: [{ name: 'v4' }] }));
    await published('versions.example.com', 'v4', 'Bar');
  });

  it('works for multiple CRDs of same group and version but different kinds [Conformance]', async () => {
    for (const kind of ['Waldo', 'Plugh']) await establish(wire, definition({ group: 'kinds.example.com', kind, schema }));
    for (const kind of ['Waldo', 'Plugh']) await published('kinds.example.com', 'v1', kind);
  });

  it('updates the published spec when one version gets renamed [Conformance]', async () => {
    const group = 'renamed.example.com';
    const path = await establish(wire, definition({ group, schema, versions: [{ name: 'v2' }, { name: 'v3' }] }));
    await published(group, 'v3');
    await wire.patch(
      path,
      [
        { op: 'test', path: '/spec/versions/1/name', value: 'v3' },
        { op: 'replace', path: '/spec/versions/1/name', value: 'v4' },
      ],
      'application/json-patch+json',
    );
    await published(group, 'v4');
    await published(group, 'v2');
    expect((await two())[named(group, 'v3', 'Foo')]).toBeUndefined();
    expect(await three(group, 'v3')).toBeUndefined();
  });

  it('removes definition from spec when one version gets changed to not be served [Conformance]', async () => {
    const group = 'unserved.example.com';
    const path = await establish(wire, definition({ group, schema, versions: [{ name: 'v5' }, { name: 'v6alpha1' }] }));
    await published(group, 'v6alpha1');
    await wire.patch(path, [{ op: 'replace', path: '/spec/versions/1/served', value: false }], 'application/json-patch+json');
    await eventually(two, (definitions) => definitions[named(group, 'v6alpha1', 'Foo')] === undefined);
    expect(await three(group, 'v6alpha1')).toBeUndefined();
    await published(group, 'v5');
  });
});
