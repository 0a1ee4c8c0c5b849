import type { ChangeBatch } from '@oarlock/spi/storage';
import { afterEach, describe, expect, it } from 'vitest';
import { int, type Int64 } from '../../src/rpc/etcd-messages.ts';
import { EtcdStorage } from '../../src/etcd-storage.ts';
import { reportsProgress } from '../../src/watch/watch-feed.ts';
import { FakeEtcd, type FakeWatch, type Message } from '../support/fake-etcd.ts';

const started: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of started.splice(0).reverse()) await each.stop();
});

async function open(version: string): Promise<{ etcd: FakeEtcd; storage: EtcdStorage }> {
  const etcd = await FakeEtcd.start();
  etcd.version = version;
  const storage = new EtcdStorage({ endpoints: [etcd.endpoint], requestTimeoutSeconds: 2, random: () => 0 });
  started.push(etcd, storage);
  return { etcd, storage };
}

const key = (name: string) => Buffer.from(`/oarlock/${name}`);
const kv = (name: string, revision: number, created: number, value = `${name}@${revision}`) => ({
  key: key(name),
  mod_revision: revision,
  create_revision: created,
  version: 1,
  value: Buffer.from(value),
});
const put = (name: string, revision: number, previous?: ReturnType<typeof kv>): Message => ({
  type: 0,
  kv: kv(name, revision, previous ? Number(previous.create_revision) : revision),
  ...(previous && { prev_kv: previous }),
});
const gone = (name: string, revision: number, previous?: ReturnType<typeof kv>): Message => ({
  type: 1,
  kv: { key: key(name), mod_revision: revision },
  ...(previous && { prev_kv: previous }),
});
const header = (revision: number) => ({ header: { revision } });
const startOf = (request: Message) => int((request['create_request'] as { start_revision: Int64 }).start_revision);

/** Formats a batch: `a@5 a@6 (6)`. */
const show = ({ changes, revision }: ChangeBatch) =>
  [
    ...changes.map((change) =>
      change.type === 'put' ? `${change.entry.key}@${change.entry.revision}` : `-${change.previous.key}@${change.revision}`,
    ),
    `(${revision})`,
  ].join(' ');

function read(storage: EtcdStorage, prefix: string, after: number) {
  const batches = storage.watch(prefix, { after, signal: new AbortController().signal })[Symbol.asyncIterator]();
  return async () => {
    const { value, done } = await batches.next();
    return done ? 'end' : show(value);
  };
}

async function created(etcd: FakeEtcd, revision = etcd.revision): Promise<{ watch: FakeWatch; start: number }> {
  const watch = await etcd.watch();
  const start = startOf(await watch.received());
  watch.send({ ...header(revision), created: true });
  return { watch, start };
}

describe('WatchFeed', () => {
  it('serves all watches from one etcd watch, for any prefixes', async () => {
    const { etcd, storage } = await open('3.5.16');
    const [a, all] = [read(storage, 'a', 100), read(storage, '', 100)];
    const { watch, start } = await created(etcd);
    expect(start).toBe(100);
    expect([await a(), await all()]).toEqual(['(100)', '(100)']);
    watch.send({ ...header(103), events: [put('a1', 101), put('b1', 102), gone('a1', 103, kv('a1', 101, 101))] });
    expect([await a(), await all()]).toEqual(['a1@101 -a1@103 (103)', 'a1@101 b1@102 -a1@103 (103)']);
    const late = read(storage, 'b', 101);
    expect(await late()).toBe('b1@102 (103)');
    expect(storage.stats).toMatchObject({ watches: 3, feeds: 1 });
  });

  it('requests progress from servers that report it in order', async () => {
    const { etcd, storage } = await open('3.5.13');
    const quiet = read(storage, 'a', 100);
    const { watch } = await created(etcd);
    expect(await quiet()).toBe('(100)');
    etcd.revision = 105;
    expect(await storage.requestProgress()).toBe(105);
    expect(await watch.received()).toMatchObject({ progress_request: {} });
    watch.send({ ...header(106), watch_id: -1 });
    expect(await quiet()).toBe('(106)');
    expect(etcd.count('Put')).toBe(0);
  });

  it('repeats the request if the server does not respond, and finally writes the marker', async () => {
    const { etcd, storage } = await open('3.6.0');
    const quiet = read(storage, 'a', 100);
    const { watch } = await created(etcd);
    await quiet();
    etcd.revision = 105;
    etcd.handlers['Put'] = ({ key: marker }) => {
      etcd.revision += 1;
      watch.send({
        ...header(etcd.revision),
        events: [{ type: 0, kv: { key: marker, mod_revision: etcd.revision, create_revision: etcd.revision } }],
      });
      return header(etcd.revision);
    };
    await storage.requestProgress();
    expect(await quiet()).toBe('(106)');
    for (let asked = 0; asked < 5; asked += 1) expect(await watch.received()).toHaveProperty('progress_request');
    expect(etcd.count('Put')).toBe(1);
  });

  it('ignores progress reports of servers that may send them too early, and uses the marker instead', async () => {
    const { etcd, storage } = await open('3.4.23');
    const quiet = read(storage, 'a', 100);
    const { watch } = await created(etcd);
    expect(await quiet()).toBe('(100)');
    etcd.revision = 105;
    let marker: unknown;
    etcd.handlers['Put'] = ({ key: markerWritten }) => {
      marker = markerWritten;
      return header((etcd.revision += 1));
    };
    await storage.requestProgress();
    const next = quiet();
    while (marker === undefined)
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    watch.send({ ...header(200), watch_id: -1 });
    // an earlier change may still arrive
    watch.send({ ...header(106), events: [put('a1', 103), { type: 0, kv: { key: marker, mod_revision: 106, create_revision: 106 } }] });
    expect(await next).toBe('a1@103 (106)');
    expect(await quiet()).toBe('(106)');
  });

  it('needs no marker if events arrive', async () => {
    const { etcd, storage } = await open('3.4.23');
    const quiet = read(storage, 'a', 100);
    const { watch } = await created(etcd);
    await quiet();
    etcd.revision = 101;
    expect(await storage.requestProgress()).toBe(101);
    watch.send({ ...header(101), events: [put('b1', 101)] });
    expect(await quiet()).toBe('(101)');
    expect(etcd.count('Put')).toBe(0);
  });

  it('reassembles fragments', async () => {
    const { etcd, storage } = await open('3.5.16');
    const all = read(storage, '', 100);
    const { watch } = await created(etcd);
    await all();
    watch.send({ ...header(101), events: [put('a', 101), put('b', 101)], fragment: true });
    watch.send({ ...header(101), events: [put('c', 101)], fragment: true });
    watch.send({ ...header(101), events: [put('d', 101)] });
    watch.send({ ...header(102), events: [put('e', 102)] });
    expect(await all()).toBe('a@101 b@101 c@101 d@101 (101)');
    expect(await all()).toBe('e@102 (102)');
  });

  it('resumes after an interruption without repeating events', async () => {
    const { etcd, storage } = await open('3.5.16');
    const all = read(storage, '', 100);
    const { watch } = await created(etcd);
    await all();
    watch.send({ ...header(101), events: [put('a', 101)] });
    expect(await all()).toBe('a@101 (101)');
    watch.send({ ...header(102), events: [put('b', 102), put('c', 102)], fragment: true });
    etcd.disconnect();
    const again = await created(etcd);
    expect(again.start).toBe(101);
    again.watch.send({ ...header(103), events: [put('a', 101), put('b', 102), put('c', 102), put('d', 103)] });
    expect(await all()).toBe('b@102 c@102 d@103 (103)');
    again.watch.stream.close();
    const third = await created(etcd);
    expect(third.start).toBe(103);
    third.watch.send({ ...header(104), events: [put('e', 104)] });
    expect(await all()).toBe('e@104 (104)');
  });

  it('ends all watches whose changes were compacted', async () => {
    const { etcd, storage } = await open('3.5.16');
    const watches = [read(storage, 'a', 50), read(storage, 'b', 60)];
    const { watch, start } = await created(etcd);
    expect(start).toBe(50);
    watch.send({ ...header(100), canceled: true, compact_revision: 80 });
    for (const each of watches) await expect(each()).rejects.toMatchObject({ code: 'Compacted' });
    expect(storage.stats).toMatchObject({ watches: 0, feeds: 0 });
  });

  it('opens the watch again if etcd cancels it for another reason', async () => {
    const { etcd, storage } = await open('3.5.16');
    const all = read(storage, '', 100);
    const { watch } = await created(etcd);
    expect(await all()).toBe('(100)');
    watch.send({ ...header(100), canceled: true, cancel_reason: 'etcdserver: no leader' });
    const again = await created(etcd);
    again.watch.send({ ...header(101), events: [put('a', 101)] });
    expect(await all()).toBe('a@101 (101)');
  });

  it('ends only the watches of keys whose previous value was compacted', async () => {
    const { etcd, storage } = await open('3.5.16');
    const [a, b] = [read(storage, 'a', 100), read(storage, 'b', 100)];
    const { watch } = await created(etcd);
    await a();
    await b();
    watch.send({ ...header(102), events: [gone('a1', 101), put('b1', 102)] });
    await expect(a()).rejects.toMatchObject({ code: 'Compacted' });
    expect(await b()).toBe('b1@102 (102)');
    // a watch from an earlier revision is read from etcd, not from the recent changes
    const anew = read(storage, 'a', 100);
    const second = await created(etcd);
    expect(second.start).toBe(100);
    second.watch.send({ ...header(102), canceled: true, compact_revision: 101 });
    await expect(anew()).rejects.toMatchObject({ code: 'Compacted' });
  });

  it('gives a watch from an earlier revision its own feed until it has caught up', async () => {
    const { etcd, storage } = await open('3.5.16');
    const main = read(storage, '', 100);
    const first = await created(etcd);
    await main();
    first.watch.send({ ...header(101), events: [put('a', 101)] });
    expect(await main()).toBe('a@101 (101)');
    etcd.revision = 101;
    const back = read(storage, '', 90);
    const second = await created(etcd);
    expect(second.start).toBe(90);
    expect(storage.stats.feeds).toBe(2);
    second.watch.send({ ...header(101), events: [put('x', 95), put('y', 98)] });
    expect(await back()).toBe('x@95 y@98 (98)');
    second.watch.send({ ...header(101), events: [put('a', 101)] });
    expect(await back()).toBe('a@101 (101)');
    expect(await back()).toBe('(101)');
    expect(storage.stats).toMatchObject({ feeds: 1, watches: 2 });
    first.watch.send({ ...header(102), events: [put('b', 102)] });
    expect(await back()).toBe('b@102 (102)');
  });

  it('detects a store that lost changes', async () => {
    const { etcd, storage } = await open('3.5.16');
    const all = read(storage, '', 100);
    await created(etcd);
    expect(await all()).toBe('(100)');
    etcd.revision = 70;
    etcd.disconnect();
    await created(etcd, 70);
    await expect(all()).rejects.toMatchObject({ code: 'FutureRevision', message: expect.stringContaining('lost data') });
  });
});

describe('reportsProgress', () => {
  it.each([
    ['3.4.23', false],
    ['3.4.25', false],
    ['3.4.31', true],
    ['3.4.40', true],
    ['3.5.0', false],
    ['3.5.8', false],
    ['3.5.12', false],
    ['3.5.13', true],
    ['3.5.16', true],
    ['3.6.0', true],
    ['3.6.0-rc.1', true],
    ['3.3.27', false],
    ['4.0.0', true],
    ['', false],
    ['unknown', false],
  ])('%s: %s', (version, expected) => {
    expect(reportsProgress(version)).toBe(expected);
  });
});
