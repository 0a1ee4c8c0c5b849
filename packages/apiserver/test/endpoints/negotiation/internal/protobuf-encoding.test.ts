import type { Kind } from '@oarlock/api/kinds';
import { kinds } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { expired } from '@oarlock/api/status';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeProtobuf } from '../../../../src/endpoints/negotiation/protobuf-decoder.ts';
import { configMap, encoded, FakePipeline, frame } from '../../../support/fake-pipeline.ts';
import { eventsIn } from '../../../support/protobuf-frames.ts';
import { startServer, type TestServer } from '../../../support/start-server.ts';

const protobuf = 'application/vnd.kubernetes.protobuf';
const both = `${protobuf},application/json`;
const maps = '/api/v1/namespaces/default/configmaps';
const collectionPath = '/apis/example.com/v1/namespaces/default/things';

const thingKind: Kind = {
  ...(kinds.find(({ kind }) => kind === 'ConfigMap') as Kind),
  group: 'example.com',
  version: 'v1',
  resource: 'things',
  singular: 'thing',
  kind: 'Thing',
  listKind: 'ThingList',
};
const thing = (name: string): KubeObject => ({ ...configMap(name), apiVersion: 'example.com/v1', kind: 'Thing' });

let server: TestServer;
beforeEach(async () => {
  server = await startServer();
});
afterEach(() => server.stop());
const get = (path: string, accept: string, more: Record<string, string> = {}) =>
  server.http1('GET', path, { headers: { accept, ...more } });

describe('protobuf response', () => {
  it('equals the JSON response', async () => {
    const object = configMap('a', { data: { text: 'ü'.repeat(300) }, immutable: false });
    server.pipeline.object(object);
    const answer = await get(`${maps}/a`, both);
    expect(answer.headers['content-type']).toBe(protobuf);
    expect(decodeProtobuf(answer.bytes)).toEqual(object);
  });

  it('encodes times of the first century, which clients send for nearly zero times', async () => {
    const lease = {
      ...configMap('a'),
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      spec: { acquireTime: '0001-01-01T00:00:02.000000Z', renewTime: '0099-12-31T23:59:59.999999Z' },
    };
    server.pipeline.object(lease);
    const answer = await get('/apis/coordination.k8s.io/v1/namespaces/default/leases/a', both);
    expect(decodeProtobuf(answer.bytes)).toEqual(lease);
  });

  it('encodes list items once, also in long and compressed lists', async () => {
    const items = Array.from({ length: 500 }, (_, i) => encoded(configMap(`map-${i}`, { data: { text: 'x'.repeat(i) } })));
    server.pipeline.list(items, { resourceVersion: '42', continue: 'more', remainingItemCount: 7 });
    for (const more of [{}, { 'accept-encoding': 'gzip' }]) {
      const answer = await get(maps, both, more);
      expect(answer.headers['content-encoding']).toBe('accept-encoding' in more ? 'gzip' : undefined);
      const list = decodeProtobuf(answer.decoded) as unknown as { readonly items: readonly KubeObject[] };
      expect(list).toMatchObject({
        kind: 'ConfigMapList',
        apiVersion: 'v1',
        metadata: { resourceVersion: '42', continue: 'more', remainingItemCount: 7 },
      });
      expect(list.items.map(({ metadata }) => metadata?.name)).toEqual(items.map(({ object }) => object.metadata?.name));
    }
    expect(items.map(({ encodings }) => encodings)).toEqual(items.map(() => 1));
    server.pipeline.list([]);
    expect(decodeProtobuf((await get(maps, both)).bytes)).toEqual({
      kind: 'ConfigMapList',
      apiVersion: 'v1',
      metadata: { resourceVersion: '42' },
    });
  });

  it('encodes the frames and the error of a watch', async () => {
    const item = encoded(configMap('a', { data: { a: 'b' } }));
    const batches = [
      [frame('ADDED', item), frame('MODIFIED', item)],
      [frame('BOOKMARK', encoded({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion: '9' } }))],
    ];
    server.pipeline.watch(async function* () {
      yield* batches;
      await Promise.resolve();
      throw expired('too old resource version: 1 (9)');
    });
    const answer = await get(`${maps}?watch=1`, both);
    expect(answer.headers['content-type']).toBe(`${protobuf};stream=watch`);
    const events = eventsIn(answer.bytes);
    expect(events.map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED', 'BOOKMARK', 'ERROR']);
    expect(events[0]?.object).toEqual(item.object);
    expect(events[2]?.object).toEqual({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion: '9' } });
    expect(events[3]?.object).toMatchObject({ kind: 'Status', apiVersion: 'v1', code: 410, reason: 'Expired' });
    expect(item.encodings).toBe(1);
  });

  it('encodes PartialObjectMetadata of both versions', async () => {
    const items = [encoded(configMap('a', { data: { a: 'b' } })), encoded(configMap('b'))];
    server.pipeline.list(items);
    const list = await get(maps, `${protobuf};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1`);
    expect(decodeProtobuf(list.bytes)).toEqual({
      kind: 'PartialObjectMetadataList',
      apiVersion: 'meta.k8s.io/v1beta1',
      metadata: { resourceVersion: '42' },
      items: items.map(({ object: { metadata } }) => ({ metadata })),
    });
    server.pipeline.object(configMap('a', { data: { a: 'b' } }));
    const one = await get(`${maps}/a`, `${protobuf};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json`);
    expect(decodeProtobuf(one.bytes)).toEqual({
      kind: 'PartialObjectMetadata',
      apiVersion: 'meta.k8s.io/v1',
      metadata: configMap('a').metadata,
    });
    server.pipeline.watch(async function* () {
      yield [frame('ADDED', items[0] as never)];
      await Promise.resolve();
    });
    const watch = await get(`${maps}?watch=1`, `${protobuf};as=PartialObjectMetadata;g=meta.k8s.io;v=v1`);
    expect(eventsIn(watch.bytes)).toEqual([
      {
        type: 'ADDED',
        object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: items[0]?.object.metadata },
      },
    ]);
  });

  it('falls back to JSON without a message: tables and custom resources', async () => {
    server.pipeline.list([encoded(configMap('a'))]);
    const table = await get(maps, `${protobuf};as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1`);
    expect(table.json()).toMatchObject({ kind: 'Table', rows: [{ cells: ['a', 0, expect.anything()] }] });
    await server.stop();

    const pipeline = new FakePipeline([thingKind]);
    server = await startServer({}, pipeline);
    pipeline.object(thing('a'));
    const answer = await get(`${collectionPath}/a`, both);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()).toEqual(thing('a'));
    const rejection = await get(`${collectionPath}/a`, protobuf);
    expect(rejection.code).toBe(406);
    expect(decodeProtobuf(rejection.bytes)).toMatchObject({ kind: 'Status', reason: 'NotAcceptable' });
    const metadata = await get(`${collectionPath}/a`, `${protobuf};as=PartialObjectMetadata;g=meta.k8s.io;v=v1`);
    expect(decodeProtobuf(metadata.bytes)).toMatchObject({ kind: 'PartialObjectMetadata', metadata: { name: 'a' } });
  });

  it('encodes errors in the negotiated format', async () => {
    const answer = await get(`${maps}/none`, both);
    expect(answer.code).toBe(404);
    expect(answer.headers['content-type']).toBe(protobuf);
    expect(decodeProtobuf(answer.bytes)).toMatchObject({
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      reason: 'NotFound',
      code: 404,
      details: { name: 'none', kind: 'configmaps' },
    });
  });

  it('rejects watches in YAML', async () => {
    let hasBegun = false;
    server.pipeline.watch(async function* () {
      hasBegun = true;
      yield await Promise.resolve([]);
    });
    const answer = await get(`${maps}?watch=1`, 'application/yaml');
    expect([answer.code, hasBegun]).toEqual([406, false]);
    expect(answer.text).toContain('application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch');
  });

  it('encodes discovery documents, legacy and aggregated', async () => {
    for (const path of ['/api', '/apis', '/api/v1', '/apis/apps', '/apis/apps/v1']) {
      const plain = (await get(path, 'application/json')).json();
      const answer = await get(path, both);
      expect(answer.headers['content-type']).toBe(protobuf);
      expect({ apiVersion: '', ...plain }).toEqual(decodeProtobuf(answer.bytes));
    }
    for (const version of ['v2', 'v2beta1']) {
      const form = `g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;
      const json = await get('/apis', `application/json;${form}`);
      const answer = await get('/apis', `${protobuf};${form},application/json;${form}`);
      expect(answer.headers['content-type']).toBe(`${protobuf};${form}`);
      expect(answer.headers['etag']).not.toBe(json.headers['etag']);
      const list = decodeProtobuf(answer.decoded) as unknown as { items: { metadata: object; versions: unknown[] }[] };
      const expected = json.json<{ items: { metadata: { name: string }; versions: unknown[] }[] }>();
      expect(list.items.map(({ versions }) => versions)).toEqual(expected.items.map(({ versions }) => versions));
      expect((await get('/apis', `${protobuf};${form}`, { 'if-none-match': String(answer.headers['etag']) })).code).toBe(304);
    }
  });
});
