import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, rejectionOf, settlePromises, TestServer } from '../support/pipeline-fixture.ts';

// the test runs the garbage collector, so results depend neither on time nor on load
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const objects = 40;
const settling = 2;
const iterations = 6;
/** Longer than storage keeps revisions and than the cache keeps events. */
const longAgo = 3 * 5 * 60_000 + 60_000;
/** A round that leaked its history would leave some thousand objects of a few hundred bytes. */
const mostGrowth = 2 << 20;

let server: TestServer;
let created: WeakRef<object>[] = [];
beforeEach(async () => {
  created = [];
  server = await TestServer.start();
});
afterEach(() => server.stop());

const noted = <T extends object>(object: T): T => {
  created.push(new WeakRef(object));
  return object;
};

async function watch(query: Record<string, string>, signal?: AbortSignal) {
  const watching = await server.watch('configmaps', query, signal && { signal });
  return noted(watching);
}

/** Runs every operation of clients on objects until none is left. */
async function round(nth: number): Promise<void> {
  const abort = new AbortController();
  const all = await watch({ allowWatchBookmarks: 'true' });
  const some = await watch({ labelSelector: 'odd=true' });
  const behind = await watch({ sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' });
  await watch({}, abort.signal);
  const names = Array.from({ length: objects }, (_, at) => `leak-${nth}-${at}`);
  for (const [at, name] of names.entries()) {
    const first = noted(
      await server.create('configmaps', configMap(name, { nth: String(nth) }, { labels: { odd: String(at % 2 === 1) } })),
    );
    const changed = noted(await server.update('configmaps', { ...first, ...{ data: { nth: String(nth), at: String(at) } } }));
    expect((await rejectionOf(server.update('configmaps', first))).status.reason).toBe('Conflict');
    noted(await server.patch('configmaps', name, { metadata: { annotations: { seen: changed.metadata?.resourceVersion } } }));
    noted(await server.patch('configmaps', name, { data: { dry: 'run' } }, { query: { dryRun: 'All' } }));
    expect((await rejectionOf(server.create('configmaps', configMap(name)))).status.reason).toBe('AlreadyExists');
  }
  for (let seen = 0; seen < objects; seen++) noted((await all.next()) ?? {});
  expect((await server.list('configmaps', { limit: '7' })).items).toHaveLength(7);
  await Promise.all(names.map((name) => server.remove('configmaps', name)));
  // a watcher that reads, one that stopped, one that never read, and one whose client disconnected
  await some.take(1);
  abort.abort(new Error('gone'));
  await Promise.all([all, some, behind].map((each) => each.close()));
  await server.clock.advance(longAgo);
}

async function left(): Promise<{ readonly objects: number; readonly heap: number }> {
  await settlePromises();
  collect();
  return { objects: created.filter((ref) => ref.deref() !== undefined).length, heap: process.memoryUsage().heapUsed };
}

describe('server memory', () => {
  it('contains nothing of deleted objects and ended watches', async () => {
    for (let nth = 0; nth < settling; nth++) await round(nth);
    const before = await left();
    for (let nth = settling; nth < settling + iterations; nth++) await round(nth);
    const after = await left();
    expect(created.length).toBeGreaterThan((settling + iterations) * objects * 5);
    // a few objects that frames of the last round still reference are no leak
    expect(after.objects).toBeLessThan(objects / 2);
    expect(after.heap - before.heap).toBeLessThan(mostGrowth);
  });

  it('contains the existing objects', async () => {
    for (let at = 0; at < objects; at++) noted(await server.create('configmaps', configMap(`kept-${at}`)));
    expect((await left()).objects).toBe(objects);
  });
});
