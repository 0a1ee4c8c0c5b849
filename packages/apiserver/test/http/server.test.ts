import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { configMap, encoded } from '../support/fake-pipeline.ts';
import { deploymentBytes } from '../support/protobuf-bodies.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  server.pipeline.requests.length = 0;
  server.pipeline.bodies.length = 0;
  server.pipeline.readBody = true;
});

const maps = '/api/v1/namespaces/default/configmaps';
const asTable = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' };
const asMetadata = { accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' };
const asMetadataList = { accept: 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io' };

describe.each(['http1', 'http2'] as const)('over %s', (protocol) => {
  const send = (method: string, path: string, options: Parameters<TestServer['http2']>[2] = {}) => server[protocol](method, path, options);

  it('sends an object', async () => {
    server.pipeline.object(configMap('a', { data: { x: 'ü' } }));
    const answer = await send('GET', `${maps}/a`);
    expect(answer.code).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.headers['cache-control']).toBe('no-cache, private');
    expect(answer.headers['audit-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(answer.headers['content-length']).toBe(String(answer.bytes.length));
    expect(answer.text.endsWith('}\n')).toBe(true);
    expect(answer.json()).toMatchObject({ kind: 'ConfigMap', data: { x: 'ü' } });
    expect(server.pipeline.requests.at(-1)).toMatchObject({
      verb: 'get',
      namespace: 'default',
      name: 'a',
      subresource: '',
      identity: { name: 'system:anonymous' },
    });
  });

  it('sends an error as Status, in YAML if the client accepts that', async () => {
    server.pipeline.answer = ({ resource, name }) => {
      throw Object.assign(new Error(`no ${resource.resource} ${name}`));
    };
    expect(await send('GET', `${maps}/a`).then((answer) => [answer.code, answer.json()])).toEqual([
      500,
      expect.objectContaining({ kind: 'Status', reason: 'InternalError', message: 'Internal error occurred: no configmaps a' }),
    ]);
    const answer = await send('GET', '/api/v1/things', { headers: { accept: 'application/yaml' } });
    expect(parse(answer.text)).toMatchObject({
      kind: 'Status',
      reason: 'NotFound',
      code: 404,
      message: 'the server could not find the requested resource',
    });
    expect((await send('GET', '/apis/none.example.com/v1/things')).text).toBe('404 page not found\n');
    expect((await send('POST', `${maps}/a`, { body: '{}' })).json()).toMatchObject({ reason: 'MethodNotAllowed', code: 405 });
    expect((await send('GET', '/api/v1/namespaces/%2e%2e/configmaps')).code).toBe(400);
    expect((await send('GET', maps, { headers: { accept: 'application/cbor' } })).json()).toMatchObject({
      reason: 'NotAcceptable',
      code: 406,
    });
  });

  it('sends YAML and indented JSON', async () => {
    server.pipeline.object(configMap('a', { data: { on: 'yes', text: 'a\nb\n' } }));
    const yaml = await send('GET', `${maps}/a`, { headers: { accept: 'application/yaml' } });
    expect(yaml.headers['content-type']).toBe('application/yaml');
    expect(parse(yaml.text, { version: '1.1' })).toMatchObject({ data: { on: 'yes', text: 'a\nb\n' } });
    expect((await send('GET', `${maps}/a?pretty=true`)).text).toContain('\n  "metadata": {\n    "name": "a"');
    expect((await send('GET', `${maps}/a`, { headers: { 'user-agent': 'curl/8.0' } })).text).toContain('\n  "kind"');
    server.pipeline.list([encoded(configMap('a')), encoded(configMap('b'))], { resourceVersion: '42', continue: 'next' });
    const compact = (await send('GET', maps)).json();
    expect(JSON.parse((await send('GET', `${maps}?pretty=1`)).text)).toEqual(compact);
    const list = await send('GET', maps, { headers: { accept: 'application/yaml' } });
    expect(parse(list.text, { version: '1.1' })).toEqual(compact);
    server.pipeline.list([]);
    expect(parse((await send('GET', maps, { headers: { accept: 'application/yaml' } })).text)).toMatchObject({ items: [] });
    expect((await send('GET', `${maps}?pretty=1`)).json()).toMatchObject({ items: [] });
  });

  it('indents errors and empty lists for curl, without a final line break', async () => {
    const indented = /^\{\n {2}"kind": "Status",\n[^]*"code": \d+\n\}$/;
    const missing = '/apis/apps/v1/nothing';
    expect((await send('GET', missing, { headers: { 'user-agent': 'curl/8.0' } })).text).toMatch(indented);
    expect((await send('GET', `${missing}?pretty=true`)).text).toMatch(indented);
    expect((await send('GET', `${missing}?pretty=false`, { headers: { 'user-agent': 'curl/8.0' } })).text).toMatch(/^\{"kind".*\}\n$/);
    expect((await send('GET', maps, { headers: { accept: 'text/html' } })).text).toMatch(indented);
    server.pipeline.list([]);
    expect((await send('GET', `${maps}?pretty=1`)).text).toMatch(/\n {2}"items": \[\]\n\}$/);
  });

  it('sends a list whose items do not repeat its kind', async () => {
    const items = [
      encoded(configMap('a')),
      encoded(configMap('b', { data: { kind: 'x' } })),
      encoded({ ...configMap('c'), kind: 'Other' }),
    ];
    server.pipeline.list(items, { resourceVersion: '42', continue: 'token', remainingItemCount: 3 });
    const list = (await send('GET', maps)).json<{ items: Record<string, unknown>[] }>();
    expect(list).toMatchObject({
      kind: 'ConfigMapList',
      apiVersion: 'v1',
      metadata: { resourceVersion: '42', continue: 'token', remainingItemCount: 3 },
    });
    expect(list.items.map(({ kind, apiVersion, metadata }) => [kind, apiVersion, (metadata as { name: string }).name])).toEqual([
      [undefined, undefined, 'a'],
      [undefined, undefined, 'b'],
      ['Other', 'v1', 'c'],
    ]);
    expect(items.map(({ encodings }) => encodings)).toEqual([1, 1, 1]);
    await send('GET', maps);
    expect(items[0]?.encodings).toBe(1);
    server.pipeline.list([]);
    expect((await send('GET', maps)).text).toBe(
      '{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":[]}\n',
    );
  });

  it('streams long lists, compressed if the client accepts gzip', async () => {
    const items = Array.from({ length: 3000 }, (_, i) => encoded(configMap(`m-${i}`, { data: { text: 'x'.repeat(200 + (i % 7)) } })));
    server.pipeline.list(items);
    const [plain, zipped] = [await send('GET', maps), await send('GET', maps, { headers: { 'accept-encoding': 'gzip' } })];
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(plain.headers['content-length']).toBeUndefined();
    expect(zipped.headers['content-encoding']).toBe('gzip');
    expect(zipped.bytes.length).toBeLessThan(plain.bytes.length / 5);
    expect(zipped.text).toBe(plain.text);
    const names = plain.json<{ items: { metadata: { name: string } }[] }>().items.map(({ metadata }) => metadata.name);
    expect(names).toEqual(items.map(({ object }) => object.metadata?.name));
    server.pipeline.list(items.slice(0, 10));
    expect((await send('GET', maps, { headers: { 'accept-encoding': 'gzip' } })).headers['content-encoding']).toBeUndefined();
    server.pipeline.list([encoded(configMap('huge', { data: { text: 'y'.repeat(900_000) } }))]);
    expect((await send('GET', maps)).json<{ items: { data: { text: string } }[] }>().items[0]?.data.text).toHaveLength(900_000);
  });

  it('sends tables', async () => {
    const item = encoded(configMap('a', { data: { x: '1', y: '2' } }));
    server.pipeline.list([item]);
    const table = (await send('GET', maps, { headers: asTable })).json<{
      columnDefinitions: { name: string }[];
      rows: { cells: unknown[]; object: unknown }[];
    }>();
    expect(table).toMatchObject({ kind: 'Table', apiVersion: 'meta.k8s.io/v1', metadata: { resourceVersion: '42' } });
    expect(table.columnDefinitions.map(({ name }) => name)).toEqual(['Name', 'Data', 'Age']);
    expect(table.rows[0]?.cells.slice(0, 2)).toEqual(['a', 2]);
    expect(table.rows[0]?.object).toEqual({ kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: item.object.metadata });
    const rowsOf = async (include: string) =>
      (await send('GET', `${maps}?includeObject=${include}`, { headers: asTable })).json<{ rows: { object: unknown }[] }>().rows;
    expect((await rowsOf('None'))[0]?.object).toBeNull();
    expect((await rowsOf('Object'))[0]?.object).toEqual(item.object);
    expect((await send('GET', `${maps}?includeObject=Nothing`, { headers: asTable })).code).toBe(400);
    server.pipeline.object(configMap('a'));
    expect((await send('GET', `${maps}/a`, { headers: asTable })).json()).toMatchObject({
      kind: 'Table',
      metadata: { resourceVersion: '7' },
      rows: [{ cells: ['a', 0, expect.any(String)] }],
    });
    server.pipeline.object({ kind: 'Status', apiVersion: 'v1', status: 'Success' } as never);
    expect((await send('DELETE', `${maps}/a`, { headers: asTable })).json()).toMatchObject({ kind: 'Status', status: 'Success' });
  });

  it('sends partial metadata, encoded once', async () => {
    const item = encoded(configMap('a', { data: { secret: 'x' } }));
    server.pipeline.answer = () => ({ kind: 'object', code: 200, item, warnings: [] });
    expect((await send('GET', `${maps}/a`, { headers: asMetadata })).json()).toEqual({
      kind: 'PartialObjectMetadata',
      apiVersion: 'meta.k8s.io/v1',
      metadata: item.object.metadata,
    });
    expect((await send('GET', `${maps}/a`, { headers: asMetadataList })).code).toBe(406);
    server.pipeline.list([item]);
    expect((await send('GET', maps, { headers: asMetadataList })).json()).toMatchObject({
      kind: 'PartialObjectMetadataList',
      metadata: { resourceVersion: '42' },
      items: [{ kind: 'PartialObjectMetadata', metadata: { name: 'a' } }],
    });
    expect((await send('GET', maps, { headers: asMetadata })).code).toBe(406);
    expect(item.encodings).toBe(0);
  });

  it('decodes a body when the pipeline reads it, and warns of unknown fields', async () => {
    server.pipeline.object(configMap('a'), 201, ['from "below"\nand more']);
    const json = { 'content-type': 'application/json' };
    const body = JSON.stringify({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a' }, data: { x: 'y' }, wrong: 1 });
    const answer = await send('POST', `${maps}?fieldManager=me`, { headers: json, body });
    expect(answer.code).toBe(201);
    expect([answer.headers['warning']].flat().join()).toContain('299 - "unknown field \\"wrong\\""');
    expect([answer.headers['warning']].flat().join()).toContain('299 - "from \\"below\\" and more"');
    expect(server.pipeline.bodies[0]).toEqual({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a' }, data: { x: 'y' } });
    expect((await send('POST', `${maps}?fieldValidation=Strict`, { headers: json, body })).json()).toMatchObject({
      code: 400,
      message: expect.stringContaining('strict decoding error: unknown field "wrong"') as string,
    });
    expect((await send('POST', `${maps}?fieldValidation=Ignore`, { headers: json, body })).headers['warning']).not.toContain('wrong');
    const yaml = await send('POST', maps, {
      headers: { 'content-type': 'application/yaml' },
      body: 'kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: b\n',
    });
    expect([yaml.code, server.pipeline.bodies.at(-1)]).toEqual([201, { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'b' } }]);
    server.pipeline.readBody = false;
    expect((await send('POST', maps, { headers: json, body: '{{{' })).code).toBe(201);
    server.pipeline.readBody = true;
    expect((await send('POST', maps, { headers: json, body: '{{{' })).code).toBe(400);
    expect((await send('POST', maps, { headers: { 'content-type': 'text/plain' }, body: 'x' })).json()).toMatchObject({
      code: 415,
      reason: 'UnsupportedMediaType',
    });
    expect(
      (await send('POST', maps, { headers: { 'content-type': 'application/vnd.kubernetes.protobuf' }, body: 'garbage' })).json(),
    ).toMatchObject({ code: 400, reason: 'BadRequest' });
  });

  it('decodes bodies in protobuf', async () => {
    server.pipeline.object(configMap('a'), 201);
    const answer = await send('POST', '/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict', {
      headers: { 'content-type': 'application/vnd.kubernetes.protobuf' },
      body: deploymentBytes,
    });
    expect(answer.code).toBe(201);
    expect(server.pipeline.bodies.at(-1)).toMatchObject({
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'web', namespace: 'default' },
      spec: { replicas: 0 },
    });
    const elsewhere = await send('POST', maps, {
      headers: { 'content-type': 'application/vnd.kubernetes.protobuf' },
      body: deploymentBytes,
    });
    expect(elsewhere.json()).toMatchObject({ code: 400, message: expect.stringContaining('cannot be handled as a ConfigMap') as string });
  });

  it('decodes patches by their content type', async () => {
    server.pipeline.object(configMap('a'));
    const patch = (type: string, body: string) => send('PATCH', `${maps}/a`, { headers: { 'content-type': type }, body });
    expect((await patch('application/json-patch+json', '[{"op":"remove","path":"/data"}]')).code).toBe(200);
    expect(server.pipeline.requests.at(-1)?.patchType).toBe('json');
    expect(server.pipeline.bodies.at(-1)).toEqual([{ op: 'remove', path: '/data' }]);
    await patch('application/strategic-merge-patch+json; charset=utf-8', '{"data":null}');
    expect([server.pipeline.requests.at(-1)?.patchType, server.pipeline.bodies.at(-1)]).toEqual(['strategic', { data: null }]);
    await patch('application/apply-patch+yaml', 'data:\n  a: b\n');
    expect([server.pipeline.requests.at(-1)?.patchType, server.pipeline.bodies.at(-1)]).toEqual(['apply', { data: { a: 'b' } }]);
    await patch('application/apply-patch+yaml', '{"data":{"a":"c"}}');
    expect(server.pipeline.bodies.at(-1)).toEqual({ data: { a: 'c' } });
    expect((await patch('application/json', '{}')).json()).toMatchObject({ code: 415 });
  });

  it('decodes DeleteOptions of any API group from the body', async () => {
    server.pipeline.object({ kind: 'Status', apiVersion: 'v1' } as never);
    await send('DELETE', '/apis/apps/v1/namespaces/a/deployments/b', {
      headers: { 'content-type': 'application/json' },
      body: '{"kind":"DeleteOptions","apiVersion":"apps/v1","propagationPolicy":"Foreground"}',
    });
    expect(server.pipeline.bodies.at(-1)).toMatchObject({ kind: 'DeleteOptions', propagationPolicy: 'Foreground' });
    await send('DELETE', '/apis/apps/v1/namespaces/a/deployments/b?gracePeriodSeconds=5');
    expect([server.pipeline.bodies.at(-1), server.pipeline.requests.at(-1)?.query['gracePeriodSeconds']]).toEqual([undefined, '5']);
  });

  it('passes the user agent and the trace context to the pipeline', async () => {
    server.pipeline.object(configMap('a'));
    const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const answer = await send('GET', `${maps}/a`, { headers: { traceparent: trace, 'user-agent': 'kubectl/v1.33', 'audit-id': 'mine-1' } });
    expect(answer.headers['audit-id']).toBe('mine-1');
    expect(server.pipeline.requests.at(-1)).toMatchObject({
      userAgent: 'kubectl/v1.33',
      spanContext: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', isRemote: true },
    });
    expect(server.pipeline.requests.at(-1)?.authentication?.to).toBeGreaterThan(0);
  });

  it('converts the options of streams to their types', async () => {
    server.pipeline.answer = () => {
      throw new Error('enough');
    };
    await send('POST', '/api/v1/namespaces/a/pods/b/exec?command=sh&command=-c&stdin=true&tty=0&container=c');
    expect(server.pipeline.bodies.at(-1)).toEqual({
      kind: 'PodExecOptions',
      apiVersion: 'v1',
      command: ['sh', '-c'],
      stdin: true,
      tty: false,
      container: 'c',
    });
    await send('GET', '/api/v1/namespaces/a/pods/b/log?follow=1&tailLines=20');
    expect(server.pipeline.bodies.at(-1)).toEqual({ kind: 'PodLogOptions', apiVersion: 'v1', follow: true, tailLines: 20 });
    expect((await send('GET', '/api/v1/namespaces/a/pods/b/log?tailLines=x')).code).toBe(400);
  });
});
