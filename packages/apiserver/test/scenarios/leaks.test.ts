import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, refusal, settled, TestServer } from '../support/pipeline-fixture.ts';

// the collector is asked, so nothing here goes by time or by how busy the machine is
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const objects = 40;
const settling = 2;
const rounds = 6;
/** Beyond what the storage forgets at its next compaction but one, and beyond the history that watches may come back to. */
const longAgo = 3 * 5 * 60_000 + 60_000;
/** Each round would leave some thousand objects of a few hundred bytes if it left its history. */
const mostGrowth = 2 << 20;

let server: TestServer;
let made: WeakRef<object>[] = [];
beforeEach(async () => {
  made = [];
  server = await TestServer.start();
});
afterEach(() => server.stop());

const noted = <T extends object>(object: T): T => {
  made.push(new WeakRef(object));
  return object;
};

async function watch(query: Record<string, string>, signal?: AbortSignal) {
  const watching = await server.watch('configmaps', query, signal && { signal });
  return noted(watching);
}

/** Everything that clients do to objects, until none is left. */
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
    expect((await refusal(server.update('configmaps', first))).status.reason).toBe('Conflict');
    noted(await server.patch('configmaps', name, { metadata: { annotations: { seen: changed.metadata?.resourceVersion } } }));
    noted(await server.patch('configmaps', name, { data: { dry: 'run' } }, { query: { dryRun: 'All' } }));
    expect((await refusal(server.create('configmaps', configMap(name)))).status.reason).toBe('AlreadyExists');
  }
  for (let seen = 0; seen < objects; seen++) noted((await all.next()) ?? {});
  expect((await server.list('configmaps', { limit: '7' })).items).toHaveLength(7);
  await Promise.all(names.map((name) => server.remove('configmaps', name)));
  // one that reads, one that stops, one that never read and one whose client has gone
  await some.take(1);
  abort.abort(new Error('gone'));
  await Promise.all([all, some, behind].map((each) => each.close()));
  await server.clock.advance(longAgo);
}

async function left(): Promise<{ readonly objects: number; readonly heap: number }> {
  await settled();
  collect();
  return { objects: made.filter((ref) => ref.deref() !== undefined).length, heap: process.memoryUsage().heapUsed };
}

describe('what a server keeps', () => {
  it('is nothing of objects, changes and watches that are long gone, however many there were', async () => {
    for (let nth = 0; nth < settling; nth++) await round(nth);
    const before = await left();
    for (let nth = settling; nth < settling + rounds; nth++) await round(nth);
    const after = await left();
    expect(made.length).toBeGreaterThan((settling + rounds) * objects * 5);
    // a few that the last round's own frames still hold are no leak
    expect(after.objects).toBeLessThan(objects / 2);
    expect(after.heap - before.heap).toBeLessThan(mostGrowth);
  });

  it('is what there is', async () => {
    for (let at = 0; at < objects; at++) noted(await server.create('configmaps', configMap(`kept-${at}`)));
    expect((await left()).objects).toBe(objects);
  });
});
