/**
 * Measures commits, reads and watches. Run: npm run bench -- storage
 */
import { setMaxListeners } from 'node:events';
import { MemoryStorage } from '../src/memory-storage.ts';

const value = new Uint8Array(1500);
const key = (at: number) => `/registry/pods/namespace-${at % 100}/pod-${String(at).padStart(7, '0')}`;
const line = (what: string, count: number, ms: number) =>
  console.log(
    `${what.padEnd(58)} ${Math.round((count / ms) * 1000)
      .toLocaleString('en')
      .padStart(12)} /s ${((ms / count) * 1000).toFixed(2).padStart(9)} us`,
  );

async function timed(what: string, count: number, work: (at: number) => Promise<unknown>): Promise<void> {
  const started = performance.now();
  for (let at = 0; at < count; at += 1) await work(at);
  line(what, count, performance.now() - started);
}

for (const keys of [1_000, 10_000, 100_000]) {
  console.log(`\n${keys.toLocaleString('en')} keys`);
  const storage = new MemoryStorage();
  const abort = new AbortController();
  setMaxListeners(0, abort.signal);
  let delivered = 0;
  for (let at = 0; at < 100; at += 1) {
    const watch = storage.watch(at === 0 ? '/registry/pods/' : `/registry/kind-${at}/`, { after: 0, signal: abort.signal });
    void (async () => {
      for await (const batch of watch) delivered += batch.changes.length;
    })();
  }
  const random = (at: number) => key((at * 7919) % keys);
  await timed('create, 100 watches, one of them its own', keys, (at) =>
    storage.commit([{ key: random(at), value }], [{ key: random(at), revision: 0 }]),
  );
  const count = Math.max(100_000, keys);
  await timed('get', count, (at) => storage.get(random(at)));
  await timed('update, one after the other', count, (at) => storage.commit([{ key: random(at), value }], []));
  const started = performance.now();
  for (let at = 0; at < count; at += 100)
    await Promise.all(Array.from({ length: 100 }, (_, index) => storage.commit([{ key: random(at + index), value }], [])));
  line('update, 100 at a time', count, performance.now() - started);
  await timed('page of 500 at the newest revision', 1_000, (at) =>
    storage.range({ prefix: '/registry/pods/', after: random(at), limit: 500 }),
  );
  await timed('whole range', 10, () => storage.range({ prefix: '/registry/pods/' }));
  const { revision } = await storage.range({ prefix: '/', limit: 1 });
  await storage.commit([{ key: '/registry/other', value }], []);
  await timed('first page of the past', 1, () => storage.range({ prefix: '/registry/pods/', limit: 500, revision }));
  await timed('further pages of the past', 1_000, (at) =>
    storage.range({ prefix: '/registry/pods/', after: random(at), limit: 500, revision }),
  );
  await timed('delete and create', keys, async (at) => {
    await storage.commit([{ key: random(at), value: null }], []);
    await storage.commit([{ key: random(at), value }], []);
  });
  abort.abort();
  globalThis.gc?.();
  console.log(`delivered ${delivered.toLocaleString('en')} changes; heap ${Math.round(process.memoryUsage().heapUsed / 1e6)} MB`);
}
