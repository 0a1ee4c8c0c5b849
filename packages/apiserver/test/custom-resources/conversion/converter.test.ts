import { afterEach, describe, expect, it } from 'vitest';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { KubeObject } from '@oarlock/api/object';
import type { CustomResourceDefinition, JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { rejectionOf, type TestServer } from '../../support/pipeline-fixture.ts';
import { testKeys } from '../../support/keys.ts';
import {
  custom,
  definition,
  definitions,
  establish,
  resourceOf,
  startServer,
  stopServers,
} from '../../support/custom-resource-definitions.ts';

const closing: Server[] = [];
afterEach(async () => {
  await stopServers();
  await Promise.all(
    closing.splice(0).map(
      (server) =>
        new Promise<void>((resolve) => {
          server.closeAllConnections();
          server.close(() => resolve());
        }),
    ),
  );
});

const free: JSONSchemaProps = { type: 'object', properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } } };
interface Widget extends KubeObject {
  readonly spec?: Readonly<Record<string, unknown>>;
}

describe('versions with conversion strategy None', () => {
  it('differ only in apiVersion; objects are stored in the storage version', async () => {
    const server = await startServer();
    const created = definition({ schema: free, versions: [{ name: 'v1' }, { name: 'v2' }, { name: 'v3', served: false }] });
    const v1 = await establish(server, created);
    const v2 = resourceOf(created, 'v2');
    await server.create(v1, custom(v1, 'a', { spec: { x: 1 } }));
    expect(await server.get(v2, 'a')).toMatchObject({ apiVersion: 'example.com/v2', spec: { x: 1 } });
    expect((await rejectionOf(server.list(resourceOf(created, 'v3')))).code).toBe(404);
    const stored = await server.get<CustomResourceDefinition>(definitions, 'widgets.example.com');
    const versions = stored.spec.versions.map((version) => ({ ...version, storage: version.name === 'v2' }));
    const moved = await server.update<CustomResourceDefinition>(definitions, {
      ...stored,
      spec: { ...stored.spec, versions },
    } as KubeObject);
    expect(moved.status?.storedVersions).toEqual(['v1', 'v2']);
    await server.list(definitions); // wait until the server serves the new definition
    const before = await server.get(v1, 'a');
    expect(before.apiVersion).toBe('example.com/v1');
    // rewriting the object changes only its storage version
    const after = await server.update(v1, before);
    expect(after.metadata?.resourceVersion).not.toBe(before.metadata?.resourceVersion);
    const again = await server.update(v1, after);
    expect(again.metadata?.resourceVersion).toBe(after.metadata?.resourceVersion);
    const rejection = await rejectionOf(server.patch(definitions, 'widgets.example.com', { spec: { versions: versions.slice(1) } }));
    expect(rejection.message).toContain('status.storedVersions[0]: Invalid value: "v1": must appear in spec.versions');
  });

  it('warn if they are deprecated', async () => {
    const server = await startServer();
    const created = definition({
      versions: [{ name: 'v2' }, { name: 'v1beta1', deprecated: true }, { name: 'v1', deprecated: true, deprecationWarning: 'go away' }],
    });
    await establish(server, created);
    const abort = new AbortController();
    const warnings = async (version: string, verb: 'list' | 'watch' = 'list') => {
      const response = await server.handle(verb, resourceOf(created, version), { signal: abort.signal });
      return response.kind === 'list' || response.kind === 'watch' ? (response.warnings ?? []) : [];
    };
    for (const version of ['v2', 'v1', 'v1beta1']) expect(await warnings(version, 'watch')).toEqual(await warnings(version));
    abort.abort();
    expect(await warnings('v2')).toEqual([]);
    expect(await warnings('v1')).toEqual(['go away']);
    expect(await warnings('v1beta1')).toEqual(['example.com/v1beta1 Widget is deprecated; use example.com/v2 Widget']);
  });
});

type Convert = (object: Widget, desired: string) => unknown;

/** Runs a webhook that converts the objects with `convert`. */
async function webhook(convert: Convert, answer?: (review: Readonly<Record<string, unknown>>) => unknown) {
  const keys = await testKeys();
  const pair = await keys.issue({ commonName: 'webhook', ipAddresses: ['127.0.0.1'], usages: ['server'] });
  let reviews = 0;
  const server = createServer({ cert: pair.certificate, key: pair.key }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      reviews++;
      const review = JSON.parse(Buffer.concat(chunks).toString()) as {
        readonly apiVersion: string;
        readonly request: { readonly uid: string; readonly desiredAPIVersion: string; readonly objects: readonly Widget[] };
      };
      const { uid, desiredAPIVersion, objects } = review.request;
      const created = answer?.(review as unknown as Readonly<Record<string, unknown>>) ?? {
        apiVersion: review.apiVersion,
        kind: 'ConversionReview',
        response: { uid, result: { status: 'Success' }, convertedObjects: objects.map((object) => convert(object, desiredAPIVersion)) },
      };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(created));
    });
  });
  closing.push(server);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    conversion: {
      strategy: 'Webhook',
      webhook: {
        conversionReviewVersions: ['v1'],
        clientConfig: { url: `https://127.0.0.1:${port}/convert`, caBundle: Buffer.from(keys.caBundle).toString('base64') },
      },
    },
    reviews: () => reviews,
  };
}

/** v1 has one field for host and port, v2 has two. */
const split: Convert = (object, desired) => {
  const { hostPort, host, port } = (object.spec ?? {}) as { readonly hostPort?: string; readonly host?: string; readonly port?: string };
  const spec = desired.endsWith('v2') ? { host: hostPort?.split(':')[0], port: hostPort?.split(':')[1] } : { hostPort: `${host}:${port}` };
  return { ...object, apiVersion: desired, spec };
};

describe('[sig-api-machinery] CustomResourceConversionWebhook should be able to convert from CR v1 to CR v2', () => {
  async function start(conversion: CustomResourceDefinition['spec']['conversion']) {
    const server: TestServer = await startServer();
    const created = definition({ schema: free, versions: [{ name: 'v1' }, { name: 'v2' }], ...(conversion && { conversion }) });
    const v1 = await establish(server, created);
    return { server, v1, v2: resourceOf(created, 'v2') };
  }

  it('converts objects that are read, listed, watched and written', async () => {
    const { conversion, reviews } = await webhook(split);
    const { server, v1, v2 } = await start(conversion);
    await server.create(v1, custom(v1, 'a', { spec: { hostPort: 'x:1' } }));
    expect(reviews()).toBe(0);
    expect(await server.get<Widget>(v2, 'a')).toMatchObject({ apiVersion: 'example.com/v2', spec: { host: 'x', port: '1' } });
    expect(await server.create<Widget>(v2, custom(v2, 'b', { spec: { host: 'y', port: '2' } }))).toMatchObject({
      apiVersion: 'example.com/v2',
    });
    expect(await server.get<Widget>(v1, 'b')).toMatchObject({ apiVersion: 'example.com/v1', spec: { hostPort: 'y:2' } });
    const patched = await server.patch<Widget>(v2, 'a', { spec: { port: '3' } });
    expect(patched.spec).toEqual({ host: 'x', port: '3' });
    expect((await server.get<Widget>(v1, 'a')).spec).toEqual({ hostPort: 'x:3' });
    const seen = reviews();
    expect((await server.list(v1)).items.map(({ object }) => (object as Widget).spec?.['hostPort'])).toEqual(['x:3', 'y:2']);
    expect(reviews()).toBe(seen);
    expect((await server.list(v2)).items.map(({ object }) => (object as Widget).spec?.['host'])).toEqual(['x', 'y']);
    const watch = await server.watch(v2, {});
    const frame = await watch.next();
    expect(frame?.item.object).toMatchObject({ spec: { host: 'x', port: '3' } });
    await watch.next();
    await server.create(v1, custom(v1, 'c', { spec: { hostPort: 'z:4' } }));
    expect((await watch.next())?.item.object).toMatchObject({ spec: { host: 'z', port: '4' } });
    await watch.close();
    await server.remove(v2, 'c');
    await server.handle('deletecollection', v2, { namespace: 'default' });
    expect((await server.list(v1)).names).toEqual([]);
  });

  it('should be able to convert a non homogeneous list of CRs', async () => {
    const { conversion } = await webhook(split);
    const { server, v1, v2 } = await start(conversion);
    await server.create(v1, custom(v1, 'a', { spec: { hostPort: 'x:1' } }));
    const stored = await server.get<CustomResourceDefinition>(definitions, 'widgets.example.com');
    const versions = stored.spec.versions.map((version) => ({ ...version, storage: version.name === 'v2' }));
    await server.update(definitions, { ...stored, spec: { ...stored.spec, versions } } as KubeObject);
    await server.list(definitions); // wait until the server serves the new definition
    await server.create(v2, custom(v2, 'b', { spec: { host: 'y', port: '2' } }));
    expect((await server.list(v1)).items.map(({ object }) => (object as Widget).spec)).toEqual([{ hostPort: 'x:1' }, { hostPort: 'y:2' }]);
    expect((await server.list(v2)).items.map(({ object }) => (object as Widget).spec)).toEqual([
      { host: 'x', port: '1' },
      { host: 'y', port: '2' },
    ]);
  });

  it('MUST list and watch custom resources matching the field selector [sig-api-machinery CustomResourceFieldSelectors]', async () => {
    const { conversion } = await webhook(split);
    const server: TestServer = await startServer();
    const host = {
      type: 'object',
      properties: { host: { type: 'string' }, port: { type: 'string' }, hostPort: { type: 'string' } },
    } as const;
    const schema: JSONSchemaProps = { type: 'object', properties: { spec: host } };
    const created = definition({
      schema,
      versions: [
        { name: 'v1', selectableFields: [{ jsonPath: '.spec.hostPort' }] },
        { name: 'v2', selectableFields: [{ jsonPath: '.spec.host' }, { jsonPath: '.spec.port' }] },
      ],
      ...(conversion && { conversion }),
    });
    const v1 = await establish(server, created);
    const v2 = resourceOf(created, 'v2');
    for (const [name, hostPort] of Object.entries({ a: 'x:1', b: 'y:1', c: 'x:2' }))
      await server.create(v1, custom(v1, name, { spec: { hostPort } }));
    expect((await server.list(v2, { fieldSelector: 'spec.host=x' })).names).toEqual(['a', 'c']);
    expect((await server.list(v2, { fieldSelector: 'spec.host=x,spec.port!=1' })).names).toEqual(['c']);
    expect((await server.list(v1, { fieldSelector: 'spec.hostPort=y:1' })).names).toEqual(['b']);
    const page = await server.list(v2, { fieldSelector: 'spec.host=x', limit: '1' });
    expect(page.names).toEqual(['a']);
    const rest = await server.list(v2, { fieldSelector: 'spec.host=x', limit: '1', continue: page.metadata.continue ?? '' });
    expect([rest.names, rest.metadata.continue]).toEqual([['c'], undefined]);
    const watch = await server.watch(v2, { fieldSelector: 'spec.host=x' });
    const later = await server.watch(v2, { fieldSelector: 'spec.host=x', resourceVersion: rest.metadata.resourceVersion ?? '' });
    expect(await watch.take(2)).toEqual(['ADDED a', 'ADDED c']);
    await server.patch(v1, 'b', { spec: { hostPort: 'x:9' } });
    await server.patch(v1, 'a', { spec: { hostPort: 'y:9' } });
    await server.patch(v1, 'c', { spec: { hostPort: 'x:8' } });
    await server.remove(v1, 'c');
    for (const each of [watch, later]) expect(await each.take(4)).toEqual(['ADDED b', 'DELETED a', 'MODIFIED c', 'DELETED c']);
    await server.handle('deletecollection', v2, { namespace: 'default', query: { fieldSelector: 'spec.host=y' } });
    expect((await server.list(v1)).names).toEqual(['b']);
    await watch.close();
    await later.close();
    // an object that no client has read before
    const unread = await server.watch(v2, { fieldSelector: 'spec.host=x' });
    await unread.close();
    expect(await unread.next()).toBeUndefined();
  });

  it('returns the message of a failed conversion', async () => {
    const refusing = await webhook(split, (review) => ({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'ConversionReview',
      response: { uid: (review['request'] as { readonly uid: string }).uid, result: { status: 'Failed', message: 'not today' } },
    }));
    const { server, v1, v2 } = await start(refusing.conversion);
    await server.create(v1, custom(v1, 'a', { spec: {} }));
    const rejection = await rejectionOf(server.get(v2, 'a'));
    expect([rejection.code, rejection.message]).toEqual([500, 'conversion webhook for example.com/v1, Kind=Widget failed: not today']);
    const untouched = await rejectionOf(server.create(v2, custom(v2, 'b', { spec: {} })));
    expect(untouched.code).toBe(500);
    expect((await server.list(v1)).names).toEqual(['a']);
  });

  it('rejects a conversion that changes what a webhook may not change', async () => {
    const rows: readonly (readonly [string, (object: Widget) => unknown, string])[] = [
      ['the name', ({ metadata }) => ({ metadata: { ...metadata, name: 'z' } }), 'must have the same name: a != z'],
      ['the namespace', ({ metadata }) => ({ metadata: { ...metadata, namespace: 'z' } }), 'must have the same namespace: default != z'],
      ['the uid', ({ metadata }) => ({ metadata: { ...metadata, uid: 'z' } }), 'must have the same UID: '],
      ['the kind', () => ({ kind: 'Secret' }), 'invalid kind (was Secret, expected Widget)'],
      ['the kind to an object', () => ({ kind: { toString: 1 } }), 'invalid kind (was {"toString":1}, expected Widget)'],
      ['the version', () => ({ apiVersion: 'v1' }), 'invalid groupVersion (was v1, expected example.com/v2)'],
      ['metadata to nothing', () => ({ metadata: undefined }), 'must have the same name: a != '],
      ['metadata to a list', () => ({ metadata: [] }), 'metadata is not an object'],
      ['labels to a list', ({ metadata }) => ({ metadata: { ...metadata, labels: ['a'] } }), 'metadata.labels is not an object'],
      ['labels to numbers', ({ metadata }) => ({ metadata: { ...metadata, labels: { a: 5 } } }), 'metadata.labels[a] must be a string'],
      ['labels to invalid ones', ({ metadata }) => ({ metadata: { ...metadata, labels: { a: '-' } } }), 'metadata.labels: '],
      [
        'annotations to objects',
        ({ metadata }) => ({ metadata: { ...metadata, annotations: { a: {} } } }),
        'metadata.annotations[a] must be',
      ],
      [
        'annotations to many',
        ({ metadata }) => ({ metadata: { ...metadata, annotations: { a: 'x'.repeat(300_000) } } }),
        'metadata.annotations: ',
      ],
    ];
    let change: (object: Widget) => unknown = (object) => object;
    const hostile = await webhook((object, desired) => ({ ...object, apiVersion: desired, ...(change(object) as object) }));
    const { server, v1, v2 } = await start(hostile.conversion);
    await server.create(v1, custom(v1, 'a', { spec: {} }));
    for (const [what, attack, message] of rows) {
      change = attack;
      const rejection = await rejectionOf(server.get(v2, 'a'));
      expect([what, rejection.code, rejection.message]).toEqual([what, 500, expect.stringContaining(message)]);
      expect((await rejectionOf(server.list(v2))).message).toContain(message);
    }
  });

  it('keeps the metadata of the object, apart from labels and annotations', async () => {
    const attack = {
      labels: { mine: 'l' },
      annotations: { mine: 'a' },
      finalizers: ['example.com/attack'],
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'attack', uid: '1' }],
      resourceVersion: '77',
      generation: 77,
      creationTimestamp: '2001-01-01T00:00:00Z',
      deletionTimestamp: '2001-01-01T00:00:00Z',
      managedFields: [{ manager: 'attack', operation: 'Apply' }],
    };
    const { conversion } = await webhook((object, desired) => ({
      ...object,
      apiVersion: desired,
      metadata: { ...object.metadata, ...attack },
    }));
    const { server, v1, v2 } = await start(conversion);
    const { metadata } = await server.create(v1, custom(v1, 'a', { spec: {} }));
    const expected = { ...metadata, labels: attack.labels, annotations: attack.annotations };
    expect((await server.get(v2, 'a')).metadata).toEqual(expected);
    // also where the webhook converts what is written
    const { metadata: patched } = await server.patch(v2, 'a', { spec: { changed: true } });
    expect([patched?.finalizers, patched?.ownerReferences, patched?.deletionTimestamp, patched?.uid]).toEqual([
      undefined,
      undefined,
      undefined,
      metadata?.uid,
    ]);
  });

  it('rejects a conversion that returns other objects than it is sent', async () => {
    const rows: readonly (readonly [string, (objects: readonly Widget[]) => readonly unknown[], string])[] = [
      ['fewer objects', (objects) => objects.slice(1), 'returned 1 objects, expected 2'],
      ['more objects', (objects) => [...objects, ...objects], 'returned 4 objects, expected 2'],
      ['the objects in another order', (objects) => objects.toReversed(), 'must have the same name: a != b'],
      ['one object twice', ([first]) => [first, first], 'must have the same name: b != a'],
      ['null', () => [null, null], 'not an object'],
    ];
    let change: (objects: readonly Widget[]) => readonly unknown[] = (objects) => objects;
    const hostile = await webhook(split, (review) => {
      const { uid, objects, desiredAPIVersion } = review['request'] as {
        readonly uid: string;
        readonly objects: readonly Widget[];
        readonly desiredAPIVersion: string;
      };
      const convertedObjects = change(objects.map((object) => ({ ...object, apiVersion: desiredAPIVersion })));
      return {
        apiVersion: review['apiVersion'],
        kind: 'ConversionReview',
        response: { uid, result: { status: 'Success' }, convertedObjects },
      };
    });
    const { server, v1, v2 } = await start(hostile.conversion);
    for (const name of ['a', 'b']) await server.create(v1, custom(v1, name, { spec: {} }));
    for (const [what, attack, message] of rows) {
      change = attack;
      const rejection = await rejectionOf(server.list(v2));
      expect([what, rejection.code, rejection.message]).toEqual([what, 500, expect.stringContaining(message)]);
    }
  });

  it('bounds what it reads and repeats of a response', async () => {
    const rows: readonly (readonly [string, (uid: string) => object, RegExp])[] = [
      [
        'millions of values',
        (uid) => ({ uid, padding: Array.from({ length: 150_000 }, () => ({})) }),
        /failed: invalid response: 300\d{3} values, at most 100\d{3} are expected$/,
      ],
      ['a long message', (uid) => ({ uid, result: { status: 'Failed', message: 'x'.repeat(100_000) } }), /failed: x{2048}$/],
      ['a long uid', () => ({ uid: 'x'.repeat(100_000) }), /got "x{2048}"$/],
    ];
    let response: (uid: string) => object = () => ({});
    const hostile = await webhook(split, (review) => ({
      apiVersion: review['apiVersion'],
      kind: 'ConversionReview',
      response: response((review['request'] as { readonly uid: string }).uid),
    }));
    const { server, v1, v2 } = await start(hostile.conversion);
    await server.create(v1, custom(v1, 'a', { spec: {} }));
    for (const [what, attack, message] of rows) {
      response = attack;
      expect((await rejectionOf(server.get(v2, 'a'))).message, what).toMatch(message);
    }
  });

  it('reports an unreachable webhook', async () => {
    const { conversion } = await webhook(split);
    const { server, v1, v2 } = await start(conversion);
    await server.create(v1, custom(v1, 'a', { spec: {} }));
    closing[0]?.closeAllConnections();
    await new Promise<void>((resolve) => {
      closing.shift()?.close(() => resolve());
    });
    expect((await rejectionOf(server.get(v2, 'a'))).message).toMatch(
      /^conversion webhook for example.com\/v1, Kind=Widget failed: Post "https:.*: dial tcp .*: connect: connection refused/,
    );
    // a dry run converts to the storage version as well
    const dry = server.create(v2, custom(v2, 'b', { spec: {} }), { query: { dryRun: 'All' } });
    expect(await rejectionOf(dry)).toMatchObject({
      code: 500,
      message: expect.stringMatching(
        /^conversion webhook for example.com\/v2, Kind=Widget failed: Post "https:.*: dial tcp .*: connect: connection refused/,
      ) as string,
    });
  });
});
