import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StorageError, type ChangeBatch, type StorageDriver } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { maxQueuedFrames } from '../../src/watch-cache/watcher.ts';
import { brief, configMap, pod, rejectionOf, settlePromises, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const revisionOf = (object: { readonly metadata?: { readonly resourceVersion?: string } }) => object.metadata?.resourceVersion ?? '';

describe('watch', () => {
  it('sends the existing objects, then every change', async () => {
    await server.create('configmaps', configMap('a'));
    const watching = await server.watch('configmaps');
    await server.create('configmaps', configMap('b'));
    await server.update('configmaps', configMap('a', { x: 'y' }));
    await server.remove('configmaps', 'b');
    expect(await watching.take(4)).toEqual(['ADDED a', 'ADDED b', 'MODIFIED a', 'DELETED b']);
    await watching.close();
  });

  it('resumes after a revision', async () => {
    const created = await server.create('configmaps', configMap('a'));
    await server.create('configmaps', configMap('b'));
    const watching = await server.watch('configmaps', { resourceVersion: revisionOf(created) });
    await server.remove('configmaps', 'a');
    expect(await watching.take(2)).toEqual(['ADDED b', 'DELETED a']);
  });

  it('sends a deleted object with the revision of its deletion', async () => {
    const created = await server.create('configmaps', configMap('a', { x: 'y' }));
    const watching = await server.watch('configmaps', { resourceVersion: revisionOf(created) });
    await server.remove('configmaps', 'a');
    const frame = await watching.next();
    expect(frame?.type).toBe('DELETED');
    expect(frame?.item.object).toMatchObject({
      data: { x: 'y' },
      metadata: { name: 'a', resourceVersion: String(Number(revisionOf(created)) + 1) },
    });
    expect(JSON.parse(frame?.json().toString() ?? '')).toEqual({ type: 'DELETED', object: frame?.item.object });
    expect(frame?.json().toString().endsWith('}\n')).toBe(true);
  });

  it('shares one frame among all watchers', async () => {
    const [one, two] = [await server.watch('configmaps'), await server.watch('configmaps', {}, { namespace: 'default' })];
    await server.create('configmaps', configMap('a'));
    const [first, second] = [await one.next(), await two.next()];
    expect(first).toBe(second);
    expect(first?.json()).toBe(second?.json());
  });

  it('sends ADDED and DELETED when an object starts or stops matching the label selector', async () => {
    const watching = await server.watch('configmaps', { labelSelector: 'on=yes' });
    await server.create('configmaps', configMap('a', {}, { labels: { on: 'no' } }));
    await server.update('configmaps', configMap('a', {}, { labels: { on: 'yes' } }));
    await server.update('configmaps', configMap('a', { x: 'y' }, { labels: { on: 'yes' } }));
    const left = await server.update('configmaps', configMap('a', { x: 'z' }, { labels: { on: 'no' } }));
    await server.remove('configmaps', 'a');
    await server.create('configmaps', configMap('b', {}, { labels: { on: 'yes' } }));
    const frames = [await watching.next(), await watching.next(), await watching.next(), await watching.next()];
    expect(frames.map((frame) => frame && brief(frame))).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a', 'ADDED b']);
    // the last version that matched, with the revision of the change
    expect(frames[2]?.item.object).toMatchObject({
      data: { x: 'y' },
      metadata: { labels: { on: 'yes' }, resourceVersion: revisionOf(left) },
    });
  });

  it('with a field selector on the node sends the pods of that node, also after a binding', async () => {
    const nodes = await Promise.all(
      ['n1', 'n2'].map((name) => server.watch('pods', { fieldSelector: `spec.nodeName=${name}`, resourceVersion: '0' })),
    );
    const unbound = await server.watch('pods', { fieldSelector: 'spec.nodeName=', resourceVersion: '0' });
    await server.create('pods', pod('a'));
    await server.create(
      'pods',
      { kind: 'Binding', apiVersion: 'v1', metadata: { name: 'a' }, ...{ target: { kind: 'Node', name: 'n2' } } },
      { subresource: 'binding', name: 'a' },
    );
    await server.create('pods', pod('b', { nodeName: 'n1' }));
    expect(await nodes[0]?.take(1)).toEqual(['ADDED b']);
    expect(await nodes[1]?.take(1)).toEqual(['ADDED a']);
    expect(await unbound.take(2)).toEqual(['ADDED a', 'DELETED a']);
  });

  it('with a field selector on the name sends that object only', async () => {
    const watching = await server.watch('configmaps', { fieldSelector: 'metadata.name=b' }, { namespace: 'default' });
    for (const name of ['a', 'b', 'c']) await server.create('configmaps', configMap(name));
    await server.remove('configmaps', 'b');
    expect(await watching.take(2)).toEqual(['ADDED b', 'DELETED b']);
  });

  it('with sendInitialEvents ends the initial events with a bookmark', async () => {
    for (const name of ['a', 'b']) await server.create('configmaps', configMap(name));
    const watching = await server.watch('configmaps', {
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: 'true',
    });
    expect(await watching.take(2)).toEqual(['ADDED a', 'ADDED b']);
    const end = await watching.next();
    expect(end?.item.object).toEqual({
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { resourceVersion: '2', annotations: { 'k8s.io/initial-events-end': 'true' } },
    });
    await server.create('configmaps', configMap('c'));
    expect(await watching.take(1)).toEqual(['ADDED c']);
  });

  it('rejects contradictory options with the messages of upstream', async () => {
    const message = async (query: Record<string, string>) => (await rejectionOf(server.watch('configmaps', query))).message;
    expect(await message({ sendInitialEvents: 'true' })).toContain(
      'resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
    );
    expect(await message({ resourceVersionMatch: 'NotOlderThan' })).toContain(
      'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
    );
  });

  it('reports a compacted revision with the oldest available one', async () => {
    for (const name of ['a', 'b', 'c']) await server.create('configmaps', configMap(name));
    const late = await TestServer.start({ storage: server.storage });
    const tooOld = await late.watch('configmaps', { resourceVersion: '1' });
    const error = await rejectionOf(tooOld.next());
    expect(error.status).toMatchObject({ code: 410, reason: 'Expired', message: 'too old resource version: 1 (3)' });
    expect(await late.watch('configmaps', { resourceVersion: '3' })).toBeDefined();
    await late.stop();
  });

  it('reports a revision of another history, which the storage has not reached', async () => {
    const { metadata } = await server.create('configmaps', configMap('a'));
    const error = await rejectionOf((await server.watch('configmaps', { resourceVersion: '1000' })).next());
    expect(error.status).toMatchObject({
      code: 410,
      reason: 'Expired',
      message: `too large resource version: 1000, current: ${metadata?.resourceVersion}`,
    });
  });

  it('sends bookmarks periodically and ends at its timeout', async () => {
    await server.create('configmaps', configMap('a'));
    const watching = await server.watch('configmaps', { allowWatchBookmarks: 'true', timeoutSeconds: '100', resourceVersion: '1' });
    await server.create('secrets', { kind: 'Secret', apiVersion: 'v1', metadata: { name: 's' } });
    const first = watching.next();
    await server.clock.advance(90_000);
    const bookmark = await first;
    expect(bookmark?.type).toBe('BOOKMARK');
    expect(bookmark?.item.object).toEqual({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion: '2' } });
    await server.clock.advance(10_000);
    let last = await watching.next();
    while (last !== undefined) {
      expect(last.type).toBe('BOOKMARK');
      last = await watching.next();
    }
  });

  it('without a timeout lasts between 30 and 60 minutes', async () => {
    const watching = await server.watch('configmaps');
    let ended = false;
    const end = watching.next().then((frame) => {
      ended = frame === undefined;
    });
    await server.clock.advance(30 * 60_000 - 1);
    expect(ended).toBe(false);
    await server.clock.advance(30 * 60_000);
    await end;
    expect(ended).toBe(true);
  });

  it('ends when its signal aborts or the server stops', async () => {
    const abort = new AbortController();
    const watching = await server.watch('configmaps', {}, { signal: abort.signal });
    const next = watching.next();
    abort.abort();
    expect(await next).toBeUndefined();
    const other = await server.watch('configmaps');
    await server.stop();
    expect(await other.next()).toBeUndefined();
  });

  it('terminates a watcher whose queue is full', async () => {
    const watching = await server.watch('configmaps', { resourceVersion: '0' });
    await server.create('configmaps', configMap('a'));
    for (let i = 0; i <= maxQueuedFrames; i++) await server.update('configmaps', configMap('a', { i: String(i) }));
    await settlePromises();
    const error = await rejectionOf(watching.next());
    expect(error.status).toMatchObject({ code: 410, reason: 'Expired' });
    expect(await watching.next()).toBeUndefined();
  });

  it('sends a large initial list in batches', async () => {
    for (let i = 0; i < 1_200; i++) await server.create('configmaps', configMap(`c${i}`));
    const response = await server.handle('watch', 'configmaps', { query: { resourceVersion: '0' } });
    if (response.kind !== 'watch') throw new Error('no watch');
    await server.create('configmaps', configMap('later'));
    await settlePromises();
    const sizes: number[] = [];
    for await (const batch of response.frames) {
      sizes.push(batch.length);
      if (sizes.reduce((sum, size) => sum + size, 0) > 1_200) break;
    }
    expect(sizes).toEqual([500, 500, 200, 1]);
  });
});

describe('the watch of storage', () => {
  /** Storage whose watches the test can fail. */
  function failingWatches(): { readonly storage: StorageDriver; fail(error: StorageError): void; starts: number[] } {
    const inner = new MemoryStorage();
    const starts: number[] = [];
    let fail: ((error: StorageError) => void) | undefined;
    const storage: StorageDriver = {
      traits: inner.traits,
      get: (...args) => inner.get(...args),
      range: (...args) => inner.range(...args),
      commit: (...args) => inner.commit(...args),
      requestProgress: () => inner.requestProgress(),
      compact: (revision) => inner.compact(revision),
      async *watch(prefix, options): AsyncIterable<ChangeBatch> {
        starts.push(options.after);
        const broken = new Promise<never>((_, reject) => {
          fail = reject;
        });
        broken.catch(() => undefined);
        const source = inner.watch(prefix, options)[Symbol.asyncIterator]();
        for (;;) {
          const { done, value } = await Promise.race([source.next(), broken]);
          if (done === true) return;
          yield value;
        }
      },
    };
    return { storage, fail: (error) => fail?.(error), starts };
  }

  it('resumes after an interruption', async () => {
    const { storage, fail, starts } = failingWatches();
    const other = await TestServer.start({ storage });
    const watching = await other.watch('configmaps');
    await other.create('configmaps', configMap('a'));
    expect(await watching.take(1)).toEqual(['ADDED a']);
    fail(new StorageError('Unavailable', 'gone for a moment'));
    await settlePromises();
    expect(other.pipeline.ready).toBe(false);
    await storage.commit(
      [{ key: '/registry/configmaps/default/b', value: Buffer.from('{"metadata":{"name":"b","namespace":"default"}}') }],
      [],
    );
    await other.clock.advance(1_000);
    expect(await watching.take(1)).toEqual(['ADDED b']);
    expect(starts).toEqual([0, 1]);
    expect(other.pipeline.ready).toBe(true);
    await other.stop();
  });

  it('reloads after a compaction and ends the watches that missed events', async () => {
    const { storage, fail } = failingWatches();
    const other = await TestServer.start({ storage });
    await other.create('configmaps', configMap('a'));
    await other.list('configmaps');
    const watching = await other.watch('configmaps', { resourceVersion: '1' });
    fail(new StorageError('Compacted', 'too old'));
    await settlePromises();
    await storage.commit([{ key: '/registry/configmaps/default/a', value: null }], []);
    expect((await rejectionOf(watching.next())).status).toMatchObject({ code: 410 });
    await other.clock.advance(1_000);
    expect((await other.list('configmaps')).names).toEqual([]);
    const tooOld = await other.watch('configmaps', { resourceVersion: '1' });
    expect((await rejectionOf(tooOld.next())).message).toBe('too old resource version: 1 (2)');
    await other.stop();
  });

  it('makes consistent reads fail with a timeout while it is stalled', async () => {
    const inner = new MemoryStorage();
    const storage: StorageDriver = {
      traits: inner.traits,
      get: (...args) => inner.get(...args),
      range: (...args) => inner.range(...args),
      commit: (...args) => inner.commit(...args),
      requestProgress: () => inner.requestProgress(),
      compact: (revision) => inner.compact(revision),
      watch: (_, { signal }) => ({
        [Symbol.asyncIterator]: () => ({
          next: () =>
            new Promise((resolve) => {
              signal.addEventListener('abort', () => resolve({ done: true, value: undefined }));
            }),
        }),
      }),
    };
    const other = await TestServer.start({ storage });
    await other.create('configmaps', configMap('a'));
    const read = rejectionOf(other.get('configmaps', 'a'));
    await other.clock.advance(3_000);
    expect((await read).status).toMatchObject({ code: 504, reason: 'Timeout' });
    // reads that accept any revision are answered
    expect((await rejectionOf(other.get('configmaps', 'a', { query: { resourceVersion: '0' } }))).code).toBe(404);
    await other.stop();
  });

  it('starts when storage becomes available', async () => {
    const inner = new MemoryStorage();
    let there = false;
    const storage: StorageDriver = new Proxy(inner, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name === 'range' && !there) return () => Promise.reject(new StorageError('Unavailable', 'not yet'));
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const other = new TestServer({ storage });
    const starting = other.pipeline.start();
    await other.clock.advance(500);
    expect(other.pipeline.ready).toBe(false);
    there = true;
    await other.clock.advance(5_000);
    await starting;
    expect(other.pipeline.ready).toBe(true);
    await other.pipeline.waitUntilReady();
    await other.stop();
  });

  it('does not decode objects that this server wrote', async () => {
    const parse = JSON.parse;
    let parsed = 0;
    JSON.parse = (...args: Parameters<typeof parse>) => {
      parsed++;
      return parse(...args);
    };
    try {
      const watching = await server.watch('configmaps');
      await server.create('configmaps', configMap('a'));
      await server.update('configmaps', configMap('a', { x: 'y' }));
      await server.get('configmaps', 'a');
      await watching.take(2);
    } finally {
      JSON.parse = parse;
    }
    expect(parsed).toBe(0);
  });
});
