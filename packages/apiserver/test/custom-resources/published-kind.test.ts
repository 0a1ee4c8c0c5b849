import { afterEach, describe, expect, it } from 'vitest';
import type { Kind } from '@oarlock/api/kinds';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { aggregatedDiscovery, discoveryDocuments, servedGroups } from '../../src/endpoints/discovery/discovery.ts';
import { jsonOf, openApiParts } from '../../src/endpoints/openapi/openapi-document.ts';
import { protobufOf } from '../../src/endpoints/openapi/internal/openapi-v2-protobuf.ts';
import { decodeCustomObject } from '../../src/custom-resources/custom-object-decoding.ts';
import { publishedSchemaOf } from '../../src/custom-resources/published-kind.ts';
import { definition, definitions, establish, startServer, stopServers, untilSeen } from '../support/custom-resource-definitions.ts';

afterEach(stopServers);

type Json = Readonly<Record<string, unknown>>;
const schema: JSONSchemaProps = {
  type: 'object',
  description: 'Turns things.',
  properties: {
    spec: {
      type: 'object',
      description: 'What is wanted.',
      required: ['size'],
      properties: {
        size: { type: 'integer', description: 'How large.', minimum: 1, maximum: 1.5, maxLength: 2 ** 40, pattern: 'x', enum: [1, 'a'] },
        maybe: { type: 'string', nullable: true },
        port: { 'x-kubernetes-int-or-string': true },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: { known: { type: 'string' } } },
        choice: { type: 'object', properties: { a: { type: 'string' } }, oneOf: [{ required: ['a'] }] },
      },
    },
  },
};

function openApi(kinds: readonly Kind[], version: 2 | 3): Json {
  return JSON.parse([...jsonOf(openApiParts(kinds, version, 'v1.36.0'), version)].join('')) as Json;
}
const custom = (served: readonly Kind[]) => served.filter((kind) => publishedSchemaOf(kind) !== undefined);

/** The descriptions of the members of every object and list, which Kubernetes' suites and programs compare. */
const conventions = 'https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md';
const standardMembers = {
  apiVersion: `APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: ${conventions}#resources`,
  kind: `Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: ${conventions}#types-kinds`,
};

describe('publication of custom resource definitions [sig-api-machinery CustomResourcePublishOpenAPI]', () => {
  it.each([2, 3] as const)("describes the standard members of objects and lists in Kubernetes' words in version %i", async (version) => {
    const server = await startServer();
    const embedded: JSONSchemaProps = {
      type: 'object',
      'x-kubernetes-embedded-resource': true,
      'x-kubernetes-preserve-unknown-fields': true,
    };
    await establish(server, definition({ schema: { type: 'object', properties: { template: embedded } } }));
    const document = openApi(custom(server.pipeline.servedKinds()), version) as {
      readonly definitions?: Json;
      readonly components?: { readonly schemas: Json };
    };
    type Body = { readonly description?: string; readonly properties: Readonly<Record<string, Body>> };
    const bodies = (document.definitions ?? document.components?.schemas) as Readonly<Record<string, Body>>;
    const described = (body: Body | undefined) =>
      Object.fromEntries(Object.entries(body?.properties ?? {}).map(([name, { description }]) => [name, description]));
    const widget = bodies['com.example.v1.Widget'];
    const metadata = `Standard object's metadata. More info: ${conventions}#metadata`;
    expect(described(widget)).toEqual({ ...standardMembers, metadata, template: undefined });
    expect(described(widget?.properties['template'])).toEqual({ ...standardMembers, metadata });
    const list = bodies['com.example.v1.WidgetList'];
    expect(list?.description).toBe('WidgetList is a list of Widget');
    expect(described(list)).toEqual({
      ...standardMembers,
      items: `List of widgets. More info: ${conventions}`,
      metadata: `Standard list metadata. More info: ${conventions}#types-kinds`,
    });
  });

  it('works for CRD with validation schema: v3 publishes the schema, v2 what its consumers support', async () => {
    const server = await startServer();
    await establish(
      server,
      definition({
        schema,
        version: { subresources: { status: {}, scale: { specReplicasPath: '.spec.size', statusReplicasPath: '.status.size' } } },
      }),
    );
    const kinds = custom(server.pipeline.servedKinds());
    const three = openApi(kinds, 3) as { readonly paths: Json; readonly components: { readonly schemas: Json } };
    expect(Object.keys(three.paths)).toEqual([
      '/apis/example.com/v1/namespaces/{namespace}/widgets',
      '/apis/example.com/v1/namespaces/{namespace}/widgets/{name}',
      '/apis/example.com/v1/widgets',
      '/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status',
      '/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale',
    ]);
    expect(three.components.schemas['com.example.v1.Widget']).toMatchObject({
      type: 'object',
      description: 'Turns things.',
      properties: {
        apiVersion: { type: 'string', description: expect.stringContaining('APIVersion defines') as unknown },
        metadata: { allOf: [{ $ref: '#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta' }] },
        spec: { required: ['size'], properties: { maybe: { nullable: true }, choice: { oneOf: [{ required: ['a'] }] } } },
      },
      'x-kubernetes-group-version-kind': [{ group: 'example.com', version: 'v1', kind: 'Widget' }],
    });
    expect(three.components.schemas['com.example.v1.WidgetList']).toMatchObject({
      'x-kubernetes-group-version-kind': [{ group: 'example.com', version: 'v1', kind: 'WidgetList' }],
    });
    const patch = (
      three.paths['/apis/example.com/v1/namespaces/{namespace}/widgets/{name}'] as {
        readonly patch: { readonly requestBody: { readonly content: Json } };
      }
    ).patch;
    expect(Object.keys(patch.requestBody.content)).not.toContain('application/strategic-merge-patch+json');
    const binary = Buffer.concat([...protobufOf(openApiParts(kinds, 2, 'v1.36.0'))]);
    expect(binary.includes('com.example.v1.Widget')).toBe(true);
    const two = openApi(kinds, 2) as { readonly definitions: Json; readonly paths: Json };
    const types = ['application/json', 'application/yaml'];
    expect(two.paths['/apis/example.com/v1/namespaces/{namespace}/widgets/{name}']).toMatchObject({
      get: { consumes: types, produces: types },
      put: { consumes: types, produces: types },
      patch: { consumes: ['application/json-patch+json', 'application/merge-patch+json', 'application/apply-patch+yaml'], produces: types },
    });
    const spec = (two.definitions['com.example.v1.Widget'] as { readonly properties: { readonly spec: { readonly properties: Json } } })
      .properties.spec.properties;
    expect(spec).toEqual({
      size: { type: 'integer', description: 'How large.', minimum: 1, maximum: 1.5, maxLength: 2 ** 40, pattern: 'x', enum: [1, 'a'] },
      maybe: {},
      port: { 'x-kubernetes-int-or-string': true },
      free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: { known: { type: 'string' } } },
      choice: { type: 'object', properties: { a: { type: 'string' } } },
    });
  });

  it('works for multiple CRDs of different groups, of same group but different versions, and of same group and version', async () => {
    const server = await startServer();
    await establish(server, definition({ schema, versions: [{ name: 'v1beta1' }, { name: 'v2' }, { name: 'v1' }] }));
    await establish(server, definition({ kind: 'Gadget', names: { shortNames: ['gg'], categories: ['all'] } }));
    await establish(server, definition({ group: 'another.org', scope: 'Cluster' }));
    const groups = servedGroups(server.pipeline.servedKinds()).slice(-2);
    expect(
      groups.map(({ name, versions }) => [name, versions.map(({ version, kinds }) => [version, kinds.map(({ kind }) => kind)])]),
    ).toEqual([
      ['another.org', [['v1', ['Widget']]]],
      [
        'example.com',
        [
          ['v2', ['Widget']],
          ['v1', ['Gadget', 'Widget']],
          ['v1beta1', ['Widget']],
        ],
      ],
    ]);
    const documents = discoveryDocuments({ served: server.pipeline.servedKinds(), serverAddress: '' });
    expect(documents.get('/apis/example.com')).toMatchObject({ preferredVersion: { groupVersion: 'example.com/v2', version: 'v2' } });
    expect(documents.get('/apis/example.com/v1')).toMatchObject({
      resources: [
        { name: 'gadgets', singularName: 'gadget', namespaced: true, kind: 'Gadget', shortNames: ['gg'], categories: ['all'] },
        { name: 'widgets' },
      ],
    });
    const aggregated = aggregatedDiscovery(server.pipeline.servedKinds(), '/apis', 'v2') as {
      readonly items: readonly { readonly metadata: Json }[];
    };
    expect(aggregated.items.slice(-2).map(({ metadata }) => metadata['name'])).toEqual(['another.org', 'example.com']);
  });

  it('updates the published spec when one version gets renamed, and removes definition from spec when one version gets changed to not be served', async () => {
    const server = await startServer();
    const created = definition({ schema, versions: [{ name: 'v1' }, { name: 'v2' }] });
    await establish(server, created);
    const versions = () => custom(server.pipeline.servedKinds()).map(({ version }) => version);
    expect(versions()).toEqual(['v2', 'v1']);
    const before = JSON.stringify(custom(server.pipeline.servedKinds())[0]);
    const change = async (next: readonly object[]) => {
      const stored = await server.get(definitions, 'widgets.example.com');
      await server.update(definitions, { ...stored, spec: { ...created.spec, versions: next } } as never);
      await server.list(definitions); // wait until the server serves the new definition
    };
    const [v1, v2] = created.spec.versions;
    await change([v1 ?? {}, { ...v2, name: 'v4' }]);
    expect(versions()).toEqual(['v4', 'v1']);
    expect(JSON.stringify(custom(server.pipeline.servedKinds())[0])).not.toBe(before);
    await change([v1 ?? {}, { ...v2, name: 'v4', served: false }]);
    expect(versions()).toEqual(['v1']);
    const served = server.pipeline.servedKinds();
    const watch = await server.watch(definitions, {});
    await server.patch(definitions, 'widgets.example.com', { metadata: { labels: { a: 'b' } } });
    await untilSeen(watch, ({ metadata }) => metadata?.labels?.['a'] === 'b');
    expect(server.pipeline.servedKinds()).toBe(served);
    await watch.close();
  });
});

describe('field validation of custom resources [sig-api-machinery FieldValidation]', () => {
  const gvk = { group: 'example.com', version: 'v1', kind: 'Widget' };
  async function fields(schemaProps: JSONSchemaProps) {
    const server = await startServer();
    await establish(server, definition({ schema: schemaProps }));
    const kind = custom(server.pipeline.servedKinds())[0];
    return () => publishedSchemaOf(kind as Kind)?.fields ?? { type: 'any' as const };
  }
  const body = (text: string) => Buffer.from(text);

  it('should create/apply a valid CR for CRD with validation schema, and detect unknown and duplicate fields', async () => {
    const known = await fields(schema);
    const wrong = body(
      '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","odd":1},"spec":{"size":1,"size":2,"bad":1,"free":{"x":1,"x":2}}}',
    );
    expect(decodeCustomObject(wrong, { type: 'application/json', expected: gvk, fields: known, fieldValidation: 'Warn' }).warnings).toEqual(
      ['duplicate field "spec.size"', 'duplicate field "spec.free.x"', 'unknown field "metadata.odd"', 'unknown field "spec.bad"'],
    );
    expect(() => decodeCustomObject(wrong, { type: 'application/json', expected: gvk, fields: known, fieldValidation: 'Strict' })).toThrow(
      'strict decoding error: duplicate field "spec.size"',
    );
    expect(
      decodeCustomObject(wrong, { type: 'application/json', expected: gvk, fields: known, fieldValidation: 'Ignore' }).warnings,
    ).toEqual([]);
    const yaml = body('apiVersion: example.com/v1\nkind: Widget\nspec:\n  size: 1\n  size: 2\n  bad: 1\n');
    expect(decodeCustomObject(yaml, { type: 'application/yaml', expected: gvk, fields: known, fieldValidation: 'Warn' }).warnings).toEqual([
      expect.stringContaining('key "size" already set in map'),
      'unknown field "spec.bad"',
    ]);
  });

  it('should create/apply a CR with unknown fields for CRD with no validation schema', async () => {
    const known = await fields({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true });
    const free = body('{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"a":1},"more":{}}');
    expect(
      decodeCustomObject(free, { type: 'application/json', expected: gvk, fields: known, fieldValidation: 'Strict' }).warnings,
    ).toEqual([]);
    const twice = body('{"apiVersion":"example.com/v1","kind":"Widget","spec":{"a":1,"a":2}}');
    expect(() => decodeCustomObject(twice, { type: 'application/json', expected: gvk, fields: known, fieldValidation: 'Strict' })).toThrow(
      'strict decoding error: duplicate field "spec.a"',
    );
  });
});
