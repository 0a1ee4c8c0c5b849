import type { KubeObject } from '@oarlock/api/object';
import { configMaps, nodes, pods } from '@oarlock/api/resources';
import { notFound } from '@oarlock/api/status';
import { LoopbackTransport, loopbackClient } from '@oarlock/client/loopback-client';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiHandler, ApiRequest } from '@oarlock/spi/loopback';
import { describe, expect, it } from 'vitest';

const alice: Identity = { name: 'alice', groups: ['dev'] };
const spanContext: SpanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };

function recording(object: KubeObject = {}): ApiHandler & { readonly requests: ApiRequest[] } {
  const requests: ApiRequest[] = [];
  return {
    requests,
    async handle(request) {
      requests.push(request);
      if (request.verb === 'list' || request.verb === 'deletecollection') return { kind: 'list', list: { items: [object] }, warnings: [] };
      if (request.verb === 'watch')
        return {
          kind: 'watch',
          events: (async function* () {
            yield [{ type: 'ADDED' as const, object }];
          })(),
        };
      return { kind: 'object', code: 200, object, warnings: [] };
    },
    async handlePath(method, path, body, identity) {
      return { method, path, body, user: identity.name };
    },
  };
}

function connected(object?: KubeObject) {
  const switchboard = new LoopbackTransport();
  const handler = recording(object);
  switchboard.connect(handler);
  return { client: loopbackClient(switchboard, alice, { userAgent: 'test' }), requests: handler.requests };
}

describe('loopbackClient', () => {
  it('does not wait for a server that never starts', async () => {
    const switchboard = new LoopbackTransport();
    const client = loopbackClient(switchboard, alice);
    const waiting = client.get(pods, { namespace: 'a', name: 'b' }, { signal: new AbortController().signal });
    switchboard.abandon();
    await expect(waiting).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    await expect(client.list(pods)).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
  });

  it('sends requests immediately to a started server', async () => {
    const switchboard = new LoopbackTransport();
    switchboard.connect(recording());
    switchboard.abandon();
    expect((await loopbackClient(switchboard, alice).list(pods)).items).toHaveLength(1);
  });

  it('passes identity, user agent and span context, and returns the same object', async () => {
    const object = Object.freeze({ metadata: { name: 'n' } });
    const { client, requests } = connected(object);
    expect(await client.withSpanContext(spanContext).get(nodes, { name: 'n', namespace: 'ignored' })).toBe(object);
    expect(requests[0]).toMatchObject({
      verb: 'get',
      resource: nodes,
      namespace: '',
      name: 'n',
      subresource: '',
      identity: alice,
      userAgent: 'test',
      spanContext,
    });
    expect((await client.list(nodes)).items[0]).toBe(object);
  });

  it('passes the parameters that a URL would have', async () => {
    const { client, requests } = connected();
    const signal = new AbortController().signal;
    const where = { namespace: 'd', name: 'n' };
    await client.list(pods, {
      namespace: 'd',
      labelSelector: 'a=b',
      fieldSelector: '',
      limit: 5,
      continue: 'c',
      resourceVersion: '0',
      resourceVersionMatch: 'Exact',
    });
    for await (const _ of client.watch(pods, { signal, sendInitialEvents: true, timeoutSeconds: 30 }));
    for await (const _ of client.watch(pods, { signal, resourceVersion: '7', bookmarks: false }));
    await client.create(configMaps, { metadata: where }, { dryRun: true, fieldManager: 'm' });
    await client.create(pods, {}, { subresource: 'binding', name: where });
    await client.update(configMaps, { metadata: where }, { subresource: 'status' });
    await client.patch(configMaps, where, 'apply', { x: 1 }, { force: true, fieldManager: 'm' });
    await client.delete(configMaps, where, {
      gracePeriodSeconds: 0,
      propagationPolicy: 'Orphan',
      preconditions: { uid: 'u' },
      dryRun: true,
    });
    await client.deleteCollection(configMaps, { namespace: 'd', labelSelector: 'a=b' });
    const seen = requests.map(({ verb, namespace, name, subresource, query, body, patchType }) => ({
      verb,
      namespace,
      name,
      subresource,
      query,
      body,
      patchType,
    }));
    const body = undefined;
    const patchType = undefined;
    expect(seen).toEqual([
      {
        verb: 'list',
        namespace: 'd',
        name: '',
        subresource: '',
        body,
        patchType,
        query: { labelSelector: 'a=b', limit: '5', continue: 'c', resourceVersion: '0', resourceVersionMatch: 'Exact' },
      },
      {
        verb: 'watch',
        namespace: '',
        name: '',
        subresource: '',
        body,
        patchType,
        query: {
          watch: 'true',
          allowWatchBookmarks: 'true',
          sendInitialEvents: 'true',
          resourceVersionMatch: 'NotOlderThan',
          timeoutSeconds: '30',
        },
      },
      { verb: 'watch', namespace: '', name: '', subresource: '', body, patchType, query: { watch: 'true', resourceVersion: '7' } },
      {
        verb: 'create',
        namespace: 'd',
        name: '',
        subresource: '',
        patchType,
        query: { dryRun: 'All', fieldManager: 'm' },
        body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: where },
      },
      { verb: 'create', namespace: 'd', name: 'n', subresource: 'binding', patchType, query: {}, body: {} },
      {
        verb: 'update',
        namespace: 'd',
        name: 'n',
        subresource: 'status',
        patchType,
        query: {},
        body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: where },
      },
      {
        verb: 'patch',
        namespace: 'd',
        name: 'n',
        subresource: '',
        patchType: 'apply',
        query: { force: 'true', fieldManager: 'm' },
        body: { x: 1 },
      },
      {
        verb: 'delete',
        namespace: 'd',
        name: 'n',
        subresource: '',
        patchType,
        query: {},
        body: {
          kind: 'DeleteOptions',
          apiVersion: 'v1',
          gracePeriodSeconds: 0,
          propagationPolicy: 'Orphan',
          preconditions: { uid: 'u' },
          dryRun: ['All'],
        },
      },
      {
        verb: 'deletecollection',
        namespace: 'd',
        name: '',
        subresource: '',
        patchType,
        query: { labelSelector: 'a=b' },
        body: { kind: 'DeleteOptions', apiVersion: 'v1' },
      },
    ]);
    expect(await client.raw('POST', '/version', { a: 1 })).toEqual({ method: 'POST', path: '/version', body: { a: 1 }, user: 'alice' });
  });

  it('distinguishes a Status from the deleted object', async () => {
    const where = { namespace: 'd', name: 'n' };
    expect(await connected({ kind: 'Status' }).client.delete(pods, where)).toBeUndefined();
    expect(await connected({ kind: 'Pod', metadata: where }).client.delete(pods, where)).toMatchObject({ kind: 'Pod' });
  });

  it('rejects missing names before it sends a request', async () => {
    const { client, requests } = connected();
    await expect(client.get(pods, { name: 'n' })).rejects.toMatchObject({ reason: 'BadRequest' });
    await expect(client.get(nodes, { name: '' })).rejects.toMatchObject({ reason: 'BadRequest' });
    await expect(client.create(pods, { metadata: { name: 'n' } })).rejects.toThrow('an empty namespace may not be set during creation');
    expect(requests).toEqual([]);
  });

  it('ends a watch without an error when its signal aborts, and propagates rejections', async () => {
    const switchboard = new LoopbackTransport();
    const abort = new AbortController();
    const client = loopbackClient(switchboard, alice);
    const watch = (async () => {
      for await (const _ of client.watch(pods, { signal: abort.signal }));
    })();
    abort.abort();
    await watch;
    switchboard.connect({ handle: () => Promise.reject(notFound(pods, 'n')), handlePath: () => Promise.resolve() });
    await expect(client.get(pods, { namespace: 'd', name: 'n' })).rejects.toMatchObject({ reason: 'NotFound' });
  });
});

describe('LoopbackTransport', () => {
  it('queues a limited number of requests until the server starts, each abortable', async () => {
    const switchboard = new LoopbackTransport({ maxWaiting: 2 });
    const client = loopbackClient(switchboard, alice);
    const abort = new AbortController();
    const first = client.get(nodes, { name: 'a' });
    const second = client.get(nodes, { name: 'b' }, { signal: abort.signal });
    await expect(client.get(nodes, { name: 'c' })).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    abort.abort(new Error('enough'));
    await expect(second).rejects.toThrow('enough');
    const third = client.get(nodes, { name: 'd' });
    const handler = recording({ kind: 'Node' });
    expect(switchboard.connected).toBe(false);
    switchboard.connect(handler);
    await Promise.all([first, third]);
    expect(handler.requests.map(({ name }) => name)).toEqual(['a', 'd']);
    expect(() => switchboard.connect(handler)).toThrow('connected already');
  });
});
