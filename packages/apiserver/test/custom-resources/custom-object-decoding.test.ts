import type { KubeObject } from '@oarlock/api/object';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { decodeCustomObject } from '../../src/custom-resources/custom-object-decoding.ts';
import { encodingFor } from '../../src/endpoints/negotiation/encoding.ts';
import type { ByteSink } from '../../src/endpoints/request/response.ts';
import { rejectionOf } from '../support/pipeline-fixture.ts';
import { Codec } from '../../src/watch-cache/item.ts';
import { anything, definition, definitions, establish, startServer, stopServers } from '../support/custom-resource-definitions.ts';

afterEach(stopServers);

const gvk = { group: 'example.com', version: 'v1', kind: 'Widget' };
const widget = (name: string, meta: object = {}, rest: object = {}): KubeObject => ({
  apiVersion: 'example.com/v1',
  kind: 'Widget',
  metadata: { name, ...meta },
  ...rest,
});
const decoded = (body: object) =>
  decodeCustomObject(Buffer.from(JSON.stringify(body)), {
    type: 'application/json',
    expected: gvk,
    fields: () => ({ type: 'any' }),
    fieldValidation: 'Strict',
  });

/** Requests that upstream's apiextensions server answered differently in an earlier release. */
describe("custom resource requests, as upstream's apiextensions server handles them", () => {
  it('accept finalizers with any qualified name and warn about unqualified ones', async () => {
    const server = await startServer();
    const widgets = await establish(server, definition());
    const warnings = async (verb: 'create' | 'update', object: KubeObject) => {
      const answer = await server.handle(verb, widgets, { namespace: 'default', name: verb === 'create' ? '' : 'a', body: object });
      return answer.kind === 'object' ? (answer.warnings ?? []) : [];
    };
    const hint = (name: string, how: string) =>
      `metadata.finalizers: "${name}": prefer a domain-qualified finalizer name${how} to avoid accidental conflicts with other finalizer writers`;
    expect(await warnings('create', widget('a', { finalizers: ['hold', 'b.example.com', 'example.com/c'] }))).toEqual([
      hint('b.example.com', ' including a path (/)'),
      hint('hold', ''),
    ]);
    const { metadata } = await server.get(widgets, 'a');
    const finalizers = [...(metadata?.finalizers ?? []), 'more'];
    expect(await warnings('update', widget('a', { resourceVersion: metadata?.resourceVersion, finalizers }))).toEqual([hint('more', '')]);
    expect((await rejectionOf(server.create(widgets, widget('b', { finalizers: ['not qualified'] })))).code).toBe(422);
  });

  it('require apiVersion, kind and a name of type string', () => {
    expect(() => decoded({ metadata: { name: 'a' } })).toThrow(
      `the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{"metadata":{"name":"a"}}' ({"metadata":{"name":"a"}})`,
    );
    expect(() => decoded({ kind: 'Widget' })).toThrow(
      'the API version in the data () does not match the expected API version (example.com/v1)',
    );
    expect(() => decoded({ ...widget('a'), metadata: { name: 5, odd: 1 } })).toThrow(
      'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string',
    );
  });

  it('reject patches that change uid or name, each with its message', async () => {
    const server = await startServer();
    const widgets = await establish(server, definition());
    await server.create(widgets, widget('a'));
    const rejection = async (body: object) => (await rejectionOf(server.patch(widgets, 'a', body, { patchType: 'merge' }))).status;
    expect(await rejection({ metadata: { uid: 'x' } })).toMatchObject({ code: 422, reason: 'Invalid' });
    expect(await rejection({ metadata: { name: 'b' } })).toMatchObject({
      code: 400,
      message: 'the name of the object (b) does not match the name on the URL (a)',
    });
    expect(await rejection({ metadata: { namespace: 'b' } })).toMatchObject({
      code: 400,
      message: 'the namespace of the provided object does not match the namespace sent on the request',
    });
    expect(await rejection({ metadata: { name: null } })).toMatchObject({
      code: 400,
      message: 'the name of the object (a based on URL) was undeterminable: name must be provided',
    });
  });

  it('return lists whose items have a kind', async () => {
    const server = await startServer();
    const widgets = await establish(server, definition());
    await server.create(widgets, widget('a'));
    const answer = await server.list(widgets);
    const chunks: Uint8Array[] = [];
    const sink: ByteSink = {
      add: (bytes, start = 0) => chunks.push(bytes.subarray(start)),
      addDecimal: (value) => chunks.push(Buffer.from(String(value))),
    };
    const encoding = encodingFor({ format: 'json', transform: undefined, version: 'v1', pretty: false }, 'list', widgets, {
      includeObject: 'None',
      now: Date.now,
    });
    for (const item of answer.items) encoding.listItem(item, true, sink);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toMatchObject({ kind: 'Widget', apiVersion: 'example.com/v1' });
  });

  it('reject negative replicas of resources with a scale', async () => {
    const server = await startServer();
    const scale = { specReplicasPath: '.spec.n', statusReplicasPath: '.status.n' };
    const widgets = await establish(server, definition({ version: { subresources: { status: {}, scale } } }));
    const rejection = (await rejectionOf(server.create(widgets, widget('a', {}, { spec: { n: -1 } })))).status;
    expect(rejection.message).toBe('Widget.example.com "a" is invalid: .spec.n: Invalid value: -1: should be a non-negative integer');
    await server.create(widgets, widget('a', {}, { spec: { n: 0 } }));
    const status = { patchType: 'merge', subresource: 'status' } as const;
    expect((await rejectionOf(server.patch(widgets, 'a', { status: { n: -2 } }, status))).status.message).toContain(
      '.status.n: Invalid value: -2',
    );
  });

  it('validate host names as upstream does', async () => {
    const server = await startServer();
    const schema: JSONSchemaProps = {
      ...anything,
      properties: { spec: { type: 'object', properties: { host: { type: 'string', format: 'hostname' } } } },
    };
    const widgets = await establish(server, definition({ schema }));
    const isTaken = async (host: string) =>
      server.create(widgets, widget('a', {}, { spec: { host } }), { query: { dryRun: 'All' } }).then(
        () => true,
        () => false,
      );
    const names = ['a', 'a-', 'a-b', 'ab.cd', 'A.COM', 'é.com', 'a+b', 'localhost', 'x'.repeat(63)];
    const others = ['', '-a', 'a--b', 'a_b', 'a_b.com', 'a.b', 'a.1', '1.2', 'a..bc', 'a.com.', 'x'.repeat(64)];
    expect(await Promise.all(names.map(isTaken))).toEqual(names.map(() => true));
    expect(await Promise.all(others.map(isTaken))).toEqual(others.map(() => false));
  });

  it('show scalar values in errors of rules, and no objects', async () => {
    const server = await startServer();
    const rules = [{ rule: 'false', message: 'no' }];
    const schema: JSONSchemaProps = {
      ...anything,
      properties: {
        spec: {
          type: 'object',
          'x-kubernetes-validations': rules,
          properties: { n: { type: 'integer', 'x-kubernetes-validations': rules } },
        },
      },
    };
    const widgets = await establish(server, definition({ schema }));
    const { status } = await rejectionOf(server.create(widgets, widget('a', {}, { spec: { n: 3 } })));
    expect(status.message).toContain('spec: Invalid value: no');
    expect(status.message).toContain('spec.n: Invalid value: 3: no');
  });

  it('keep all digits of integers, from a schema default to storage', async () => {
    const server = await startServer();
    const most = 9_223_372_036_854_775_807n;
    const schema: JSONSchemaProps = {
      ...anything,
      properties: { spec: { type: 'object', properties: { n: { type: 'integer', format: 'int64', default: most as unknown as number } } } },
    };
    const widgets = await establish(server, definition({ schema }));
    await server.create(widgets, widget('a', {}, { spec: {} }));
    const answer = await server.handle('get', widgets, { namespace: 'default', name: 'a' });
    expect(answer.kind === 'object' && answer.item.json().toString()).toContain('"spec":{"n":9223372036854775807}');
    const response = await server.handle('get', definitions, { name: 'widgets.example.com' });
    expect(response.kind === 'object' && response.item.json().toString()).toContain('"default":9223372036854775807');
    expect(
      new Codec('v1', 'Widget', { preservesNumbers: true }).parse('a', Buffer.from(`{"metadata":{},"n":${most}}`), 1).object,
    ).toMatchObject({
      n: most,
    });
  });
});
