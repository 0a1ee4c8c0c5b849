import { afterEach, describe, expect, it } from 'vitest';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import type { Resource } from '@oarlock/api/resource';
import { rejectionOf, type TestServer } from '../../support/pipeline-fixture.ts';
import { custom, definition, definitions, establish, startServer, stopServers } from '../../support/custom-resource-definitions.ts';

afterEach(stopServers);

const text: JSONSchemaProps = { type: 'string' };
const spec = (properties: Record<string, JSONSchemaProps>, more: JSONSchemaProps = {}): JSONSchemaProps => ({
  type: 'object',
  properties: { spec: { type: 'object', properties, ...more } },
});

async function withSchema(schema: JSONSchemaProps): Promise<{ readonly server: TestServer; readonly widgets: Resource }> {
  const server = await startServer();
  return { server, widgets: await establish(server, definition({ schema })) };
}

async function messages(server: TestServer, widgets: Resource, object: Readonly<Record<string, unknown>>): Promise<readonly string[]> {
  const { status } = await rejectionOf(server.create(widgets, custom(widgets, 'a', object)));
  return (status.details?.causes ?? []).map(({ field, message }) => `${field}: ${message}`);
}

describe('custom resource values', () => {
  it("are rejected with Kubernetes' field, reason and message", async () => {
    const { server, widgets } = await withSchema(
      spec(
        {
          replicas: { type: 'integer', minimum: 1, maximum: 10, format: 'int32' },
          name: { type: 'string', minLength: 2, maxLength: 5, pattern: '^[a-z]+$' },
          color: { type: 'string', enum: ['red', 'blue'] },
          at: { type: 'string', format: 'date-time' },
          step: { type: 'number', multipleOf: 0.5 },
          above: { type: 'number', minimum: 0, exclusiveMinimum: true },
          list: { type: 'array', minItems: 1, maxItems: 2, items: text },
          map: { type: 'object', maxProperties: 1, additionalProperties: { type: 'integer' } },
          port: { 'x-kubernetes-int-or-string': true },
          containers: { type: 'array', items: { type: 'object', required: ['name'], properties: { name: text } } },
          maybe: { type: 'string', nullable: true },
        },
        { required: ['replicas'] },
      ),
    );
    const one = (fields: object) => messages(server, widgets, { spec: { replicas: 1, ...fields } });
    expect(await messages(server, widgets, { spec: {} })).toEqual(['spec.replicas: Required value']);
    expect(await one({ replicas: '1' })).toEqual([
      'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"',
    ]);
    expect(await one({ replicas: 0 })).toEqual([
      'spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1',
    ]);
    expect(await one({ replicas: 11 })).toEqual([
      'spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10',
    ]);
    expect(await one({ above: 0 })).toEqual(['spec.above: Invalid value: 0: spec.above in body should be greater than 0']);
    expect(await one({ name: 'a' })).toEqual(['spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long']);
    expect(await one({ name: 'abcdef' })).toEqual(['spec.name: Too long: may not be more than 5 bytes']);
    expect(await one({ name: 'A1' })).toEqual(['spec.name: Invalid value: "A1": spec.name in body should match \'^[a-z]+$\'']);
    expect(await one({ color: 'green' })).toEqual(['spec.color: Unsupported value: "green": supported values: "red", "blue"']);
    expect(await one({ at: 'now' })).toEqual(['spec.at: Invalid value: "now": spec.at in body must be of type date-time: "now"']);
    expect(await one({ step: 0.7 })).toEqual(['spec.step: Invalid value: 0.7: spec.step in body should be a multiple of 0.5']);
    expect(await one({ list: [] })).toEqual(['spec.list: Invalid value: 0: spec.list in body should have at least 1 items']);
    expect(await one({ list: ['a', 'b', 'c'] })).toEqual(['spec.list: Too many: 3: must have at most 2 items']);
    expect(await one({ map: { a: 1, b: 2 } })).toEqual(['spec.map: Too many: 2: must have at most 1 item']);
    expect(await one({ map: { a: 'b' } })).toEqual([
      'spec.map.a: Invalid value: "string": spec.map.a in body must be of type integer: "string"',
    ]);
    expect(await one({ port: true })).toEqual([
      'spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
    ]);
    expect(await one({ containers: [{ name: 'a' }, {}] })).toEqual(['spec.containers[1].name: Required value']);
    await server.create(widgets, custom(widgets, 'ok', { spec: { replicas: 1, port: 'http', maybe: null, containers: [{ name: 'a' }] } }));
    expect(await server.get(widgets, 'ok')).toMatchObject({ spec: { maybe: null, port: 'http' } });
    const { message, reason, code } = await rejectionOf(
      server.create(widgets, custom(widgets, 'a', { spec: { replicas: 0, color: 'x' } })),
    );
    expect([code, reason]).toEqual([422, 'Invalid']);
    expect(message).toMatch(/^Widget\.example\.com "a" is invalid: \[spec\.replicas: .*, spec\.color: .*\]$/);
  });

  it('are validated by anyOf, oneOf, allOf and not', async () => {
    const { server, widgets } = await withSchema(
      spec(
        { a: { type: 'integer' }, b: { type: 'integer' }, c: text },
        {
          oneOf: [{ required: ['a'] }, { required: ['b'] }],
          not: { properties: { c: { enum: ['bad'] } }, required: ['c'] },
          anyOf: [{ properties: { a: { maximum: 5 } } }, { required: ['c'] }],
        },
      ),
    );
    expect(await messages(server, widgets, { spec: {} })).toEqual([
      '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid',
      'spec.a: Required value',
    ]);
    expect(await messages(server, widgets, { spec: { a: 1, b: 1 } })).toEqual([
      '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ]);
    expect(await messages(server, widgets, { spec: { a: 1, c: 'bad' } })).toEqual([
      '<nil>: Invalid value: "": "spec" must not validate the schema (not)',
    ]);
    expect((await messages(server, widgets, { spec: { a: 9 } }))[0]).toBe(
      '<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)',
    );
    await server.create(widgets, custom(widgets, 'ok', { spec: { a: 9, c: 'good' } }));
  });

  it('are unique in lists of type set and map', async () => {
    const { server, widgets } = await withSchema(
      spec({
        tags: { type: 'array', 'x-kubernetes-list-type': 'set', items: text },
        ports: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['port', 'protocol'],
          items: {
            type: 'object',
            required: ['port'],
            properties: { port: { type: 'integer' }, protocol: { type: 'string', default: 'TCP' } },
          },
        },
      }),
    );
    expect(await messages(server, widgets, { spec: { tags: ['a', 'b', 'a'] } })).toEqual(['spec.tags[2]: Duplicate value: "a"']);
    expect(await messages(server, widgets, { spec: { ports: [{ port: 1 }, { port: 1, protocol: 'TCP' }] } })).toEqual([
      'spec.ports[1]: Duplicate value: {"port":1,"protocol":"TCP"}',
    ]);
  });

  it('tolerates existing errors in unchanged values (ratcheting)', async () => {
    const { server, widgets } = await withSchema(spec({ name: text, other: text, list: { type: 'array', items: text } }));
    await server.create(widgets, custom(widgets, 'a', { spec: { name: 'LONG', other: 'x' } }));
    const stored = await server.get(definitions, 'widgets.example.com');
    const stricter = definition({ schema: spec({ name: { type: 'string', maxLength: 2 }, other: text }) });
    await server.update(definitions, { ...stored, spec: stricter.spec } as never);
    await server.list(definitions); // wait until the server serves the new schema
    expect((await rejectionOf(server.create(widgets, custom(widgets, 'b', { spec: { name: 'LONG' } })))).code).toBe(422);
    await server.patch(widgets, 'a', { spec: { other: 'y' } });
    expect((await rejectionOf(server.patch(widgets, 'a', { spec: { name: 'ALSO' } }))).message).toContain('spec.name: Too long');
  });
});

describe('unknown fields of custom resources', () => {
  const schema: JSONSchemaProps = {
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          known: text,
          free: {
            type: 'object',
            'x-kubernetes-preserve-unknown-fields': true,
            properties: { inner: { type: 'object', properties: { a: text } } },
          },
          list: { type: 'array', items: { type: 'object', properties: { a: text } } },
          map: { type: 'object', additionalProperties: { type: 'object', properties: { a: text } } },
          template: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
        },
      },
    },
  };

  it('are pruned unless the schema preserves them', async () => {
    const { server, widgets } = await withSchema(schema);
    const created = await server.create(
      widgets,
      custom(widgets, 'a', {
        extra: 1,
        spec: {
          known: 'x',
          unknown: 1,
          free: { any: { thing: [1] }, inner: { a: 'x', b: 'y' } },
          list: [{ a: 'x', b: 'y' }],
          map: { k: { a: 'x', b: 'y' } },
          template: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', bogus: 1 }, spec: { x: 1 } },
        },
      }),
    );
    expect(created).not.toHaveProperty('extra');
    expect(created).toMatchObject({
      spec: {
        known: 'x',
        free: { any: { thing: [1] }, inner: { a: 'x' } },
        list: [{ a: 'x' }],
        map: { k: { a: 'x' } },
        template: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { x: 1 } },
      },
    });
    expect(JSON.stringify(created)).not.toMatch(/"b":|bogus|"unknown":/);
  });

  it('embedded objects require apiVersion and kind', async () => {
    const { server, widgets } = await withSchema(schema);
    expect(await messages(server, widgets, { spec: { template: { metadata: { name: 'p' } } } })).toEqual([
      'spec.template.apiVersion: Required value',
      'spec.template.kind: Required value',
    ]);
  });

  it('are rejected in patches with Strict and cause warnings otherwise', async () => {
    const { server, widgets } = await withSchema(schema);
    await server.create(widgets, custom(widgets, 'a', { spec: { known: 'x' } }));
    const strict = await rejectionOf(
      server.patch(widgets, 'a', { spec: { bad: 1, list: [{ worse: 1 }] } }, { query: { fieldValidation: 'Strict' } }),
    );
    expect([strict.code, strict.message]).toEqual([
      422,
      expect.stringMatching(/: strict decoding error: unknown field "spec.bad", unknown field "spec.list\[0\].worse"$/),
    ]);
    const warned = await server.handle('patch', widgets, {
      namespace: 'default',
      name: 'a',
      patchType: 'merge',
      body: { spec: { bad: 1 } },
      query: { fieldValidation: 'Warn' },
    });
    expect(warned.kind === 'object' && warned.warnings).toEqual(['unknown field "spec.bad"']);
  });

  it('strategic merge patches are rejected', async () => {
    const { server, widgets } = await withSchema(schema);
    await server.create(widgets, custom(widgets, 'a', {}));
    const rejection = await rejectionOf(server.patch(widgets, 'a', {}, { patchType: 'strategic' }));
    expect([rejection.code, rejection.reason]).toEqual([415, 'UnsupportedMediaType']);
  });
});

describe('custom resource defaulting for requests and from storage works [sig-api-machinery CustomResourceDefinition Defaulting]', () => {
  it('sets absent fields, nested fields, and fields whose null is not allowed', async () => {
    const { server, widgets } = await withSchema(
      spec({
        a: { type: 'string', default: 'A' },
        b: { type: 'string', default: 'B', nullable: true },
        c: { type: 'string', nullable: true },
        d: text,
        nested: { type: 'object', default: {}, properties: { x: { type: 'integer', default: 1 }, y: { type: 'integer' } } },
        list: { type: 'array', items: { type: 'object', properties: { x: { type: 'integer', default: 2 } } } },
      }),
    );
    const created = await server.create(
      widgets,
      custom(widgets, 'a', { spec: { a: null, b: null, c: null, d: null, list: [{}, { x: 3 }] } }),
    );
    expect((created as unknown as { readonly spec: unknown }).spec).toEqual({
      a: 'A',
      b: null,
      c: null,
      nested: { x: 1 },
      list: [{ x: 2 }, { x: 3 }],
    });
  });

  it('sets defaults in objects that were stored before the default existed', async () => {
    const { server, widgets } = await withSchema(spec({ a: text }));
    await server.create(widgets, custom(widgets, 'old', { spec: {} }));
    const stored = await server.get(definitions, 'widgets.example.com');
    const changed = definition({ schema: spec({ a: { type: 'string', default: 'A' }, b: text }) });
    await server.update(definitions, { ...stored, spec: changed.spec } as never);
    await server.list(definitions); // wait until the server serves the new schema
    expect(await server.get(widgets, 'old')).toMatchObject({ spec: { a: 'A' } });
    expect((await server.list(widgets)).items[0]?.object).toMatchObject({ spec: { a: 'A' } });
    const watch = await server.watch(widgets, {});
    expect((await watch.next())?.item.object).toMatchObject({ spec: { a: 'A' } });
    await watch.close();
  });
});
