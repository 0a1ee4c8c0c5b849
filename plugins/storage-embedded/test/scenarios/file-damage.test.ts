import { open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EmbeddedStorage, type EmbeddedStorageOptions } from '../../src/embedded-storage.ts';
import { FaultyDisk, makeDirectory, noSpace } from '../support/directory.ts';

let directory: Awaited<ReturnType<typeof makeDirectory>>;
const running: EmbeddedStorage[] = [];
beforeEach(async () => {
  directory = await makeDirectory();
});
afterEach(async () => {
  for (const storage of running.splice(0)) await storage.stop();
  await directory.remove();
});

async function start(options: Partial<EmbeddedStorageOptions> = {}): Promise<EmbeddedStorage> {
  const storage = new EmbeddedStorage({ directory: directory.path, ...options });
  running.push(storage);
  await storage.start();
  return storage;
}
/** Writes many changes of few keys. */
async function churn(storage: EmbeddedStorage): Promise<void> {
  const value = 'x'.repeat(1000);
  for (let round = 0; round < 30; round += 1)
    await Promise.all(Array.from({ length: 100 }, (_, at) => put(storage, `/k${at}`, `${round}${value}`)));
  await snapshot(storage);
}
const snapshot = (storage: EmbeddedStorage) => expect.poll(() => storage.stats.snapshots).toBeGreaterThan(0);
const put = (storage: EmbeddedStorage, key: string, value: string | Buffer = key) =>
  storage.commit([{ key, value: Buffer.from(value) }], []);
const files = async (kind: 'log' | 'snapshot') =>
  (await readdir(directory.path))
    .filter((name) => name.startsWith(`${kind}-`) && !name.endsWith('.tmp'))
    .sort()
    .map((name) => join(directory.path, name));
const keys = async (storage: EmbeddedStorage) => (await storage.range({ prefix: '/' })).entries.map(({ key }) => key);

/** Returns the offset after the last nonzero byte. */
async function endOf(file: string): Promise<number> {
  const bytes = await readFile(file);
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end -= 1;
  return end;
}
async function change(file: string, offset: number, bytes: Uint8Array): Promise<void> {
  const handle = await open(file, 'r+');
  await handle.write(bytes, 0, bytes.length, offset);
  await handle.close();
}

/** Writes commits and stops; returns the log's only file, and the offsets of the commits. */
async function writeLog(count: number): Promise<{ file: string; ends: number[] }> {
  const storage = await start();
  const [file = ''] = await files('log');
  const ends = [await endOf(file)];
  for (let at = 0; at < count; at += 1) {
    await put(storage, `/k${at}`);
    ends.push(await endOf(file));
  }
  await storage.stop();
  return { file, ends };
}

describe('a truncated log', () => {
  it('loses only the incomplete record, for any length', async () => {
    const { file, ends } = await writeLog(3);
    const whole = await readFile(file);
    const [from = 0, to = 0] = [ends[2], ends[3]];
    for (let cut = (from + 7) & ~7; cut < to; cut += 5) {
      // the rest of the file is zeros, or missing
      for (const rest of [Buffer.alloc(whole.length - cut), Buffer.alloc(0)]) {
        await writeFile(file, Buffer.concat([whole.subarray(0, cut), rest]));
        const storage = await start();
        expect(await keys(storage)).toEqual(['/k0', '/k1']);
        await put(storage, '/next');
        await storage.stop();
        const again = await start();
        expect(await keys(again)).toEqual(['/k0', '/k1', '/next']);
        await again.stop();
      }
    }
  });

  it('is rejected with file and offset if a record in the middle is damaged', async () => {
    const { file, ends } = await writeLog(3);
    const [end = 0] = ends.slice(1);
    await change(file, end - 2, Buffer.from([0xff]));
    const first = ((ends[0] ?? 0) + 7) & ~7;
    await expect(start()).rejects.toMatchObject({
      name: 'StorageError',
      code: 'Corrupt',
      message: expect.stringContaining(`${file} is damaged at byte ${first}`),
    });
    // and the file is unchanged
    expect((await stat(file)).size).toBeGreaterThan(end);
  });

  it('ignores stored values that look like records', async () => {
    const { file } = await writeLog(2);
    const bytes = await readFile(file);
    const storage = await start();
    await put(storage, '/copy', bytes.subarray(0, await endOf(file)));
    await storage.stop();
    // truncated within the copied frames: older frames follow
    const end = await endOf(file);
    await writeFile(file, (await readFile(file)).subarray(0, end - 8));
    const again = await start();
    expect(await keys(again)).toEqual(['/k0', '/k1']);
  });

  it('is rejected if one of its files is missing', async () => {
    const storage = await start({ segmentBytes: 4096 });
    for (let at = 0; at < 600; at += 1) await put(storage, `/k${at}`, 'x'.repeat(1000));
    await storage.stop();
    const segments = await files('log');
    expect(segments.length).toBeGreaterThan(2);
    await rm(segments[1] as string);
    await expect(start()).rejects.toMatchObject({ code: 'Corrupt', message: expect.stringContaining(segments[2] as string) });
  });

  it('is rejected if its newest file is missing, with the name of that file', async () => {
    const storage = await start({ segmentBytes: 4096 });
    for (let at = 0; at < 600; at += 1) await put(storage, `/k${at}`, 'x'.repeat(1000));
    await storage.stop();
    const newest = (await files('log')).at(-1) as string;
    const content = await readFile(newest);
    await rm(newest);
    await expect(start()).rejects.toMatchObject({ code: 'Corrupt', message: expect.stringContaining(basename(newest)) });
    await writeFile(newest, content);
    expect(await keys(await start())).toHaveLength(600);
  });

  it('is rejected if a snapshot exists and every file of the log is missing', async () => {
    const storage = await start({ snapshotBytes: 4096, segmentBytes: 4096, historyChanges: 10 });
    await churn(storage);
    await storage.stop();
    for (const file of await files('log')) await rm(file);
    await expect(start()).rejects.toMatchObject({ code: 'Corrupt', message: expect.stringContaining('every file of the log is missing') });
  });

  it('starts with a mark of the next file that a crash cut off', async () => {
    const storage = await start({ segmentBytes: 4096 });
    for (let at = 0; at < 600; at += 1) await put(storage, `/k${at}`, 'x'.repeat(1000));
    await storage.stop();
    const [first = ''] = await files('log');
    const end = await endOf(first);
    await change(first, end - 4, Buffer.alloc(4));
    expect(await keys(await start())).toHaveLength(600);
  });
});

describe('snapshots', () => {
  const small = { segmentBytes: 4096, snapshotBytes: 1, historyChanges: 1_000 };

  it('replace the older part of the log during writes', async () => {
    const storage = await start(small);
    const value = 'x'.repeat(1000);
    for (let round = 0; round < 40; round += 1)
      await Promise.all(Array.from({ length: 100 }, (_, at) => put(storage, `/k${at}`, `${round}${value}`)));
    await storage.commit([{ key: '/k0', value: null }], []);
    await put(storage, '/ttl');
    await snapshot(storage);
    await expect.poll(() => storage.stats.logBytes).toBeLessThan(3_000_000);
    // obsolete files are removed with later commits
    await expect
      .poll(
        async () => {
          await put(storage, '/later');
          return storage.stats.revision - storage.stats.compacted;
        },
        { timeout: 120_000 },
      )
      .toBe(small.historyChanges);
    const before = await storage.range({ prefix: '' });
    const past = await storage.range({ prefix: '', revision: storage.stats.compacted });
    const { revision, compacted } = storage.stats;
    await storage.stop();
    expect((await files('snapshot')).length).toBe(1);
    const again = await start(small);
    expect(again.stats).toMatchObject({ revision, compacted });
    expect(await again.range({ prefix: '' })).toEqual(before);
    expect(await again.range({ prefix: '', revision: compacted })).toEqual(past);
  });

  it('are rejected if damaged or incomplete', async () => {
    const storage = await start(small);
    await churn(storage);
    await storage.stop();
    const [file = ''] = await files('snapshot');
    const whole = await readFile(file);
    for (const damage of [
      whole.subarray(0, whole.length - 8),
      Buffer.concat([whole.subarray(0, 5000), Buffer.from('!'), whole.subarray(5001)]),
    ]) {
      await writeFile(file, damage);
      await expect(start(small)).rejects.toMatchObject({ code: 'Corrupt', message: expect.stringContaining(file) });
    }
  });

  it('keep the remaining time to live of keys', async () => {
    const clock = new FakeClock();
    const storage = await start({ ...small, clock });
    await storage.commit([{ key: '/ttl', value: Buffer.from('1'), ttlSeconds: 100 }], []);
    await churn(storage);
    await clock.advance(40_000);
    await storage.stop();
    const again = await start({ ...small, clock });
    const gone = again.watch('/ttl', { after: again.stats.revision, signal: new AbortController().signal })[Symbol.asyncIterator]();
    await gone.next();
    await clock.advance(59_000);
    expect((await again.get('/ttl')).entry).toBeDefined();
    await clock.advance(2_000);
    expect((await gone.next()).value?.changes).toMatchObject([{ type: 'delete', previous: { key: '/ttl' } }]);
  });
});

describe('a process without free file descriptors', () => {
  const many = async (storage: EmbeddedStorage, name: string) => {
    for (let at = 0; at < 30; at += 1) await put(storage, `/${name}${at}`, 'x'.repeat(1000));
  };
  const small = { segmentBytes: 8192, snapshotBytes: 2 ** 30 };

  it('continues in the segment that was prepared, then in a growing one, and with new ones when some are free', async () => {
    const disk = new FaultyDisk();
    const storage = await start({ disk, ...small });
    // the first segment is larger than the others
    while ((await files('log')).length < 2) await many(storage, 'before');
    const revision = storage.stats.revision;
    disk.withoutDescriptors = true;
    await many(storage, 'during');
    await many(storage, 'later');
    expect(storage.stats).toMatchObject({ revision: revision + 60, isRejecting: false });
    const { segments } = storage.stats;
    disk.withoutDescriptors = false;
    await many(storage, 'after');
    expect(storage.stats.segments).toBeGreaterThan(segments);
    const before = await keys(storage);
    await storage.stop();
    expect(await keys(await start(small))).toEqual(before);
  });
});

describe('a full disk', () => {
  it.each([0, 10, 40])(
    'rejects commits with a clear error, and accepts them when there is space again; %i bytes were written',
    async (partial) => {
      const disk = new FaultyDisk();
      const storage = await start({ disk });
      await put(storage, '/before');
      const { revision } = storage.stats;
      disk.partial = partial;
      disk.onChange = (what) => {
        if (what === 'write' || what === 'create') throw noSpace();
      };
      const outcomes = await Promise.allSettled([put(storage, '/a'), put(storage, '/b')]);
      for (const outcome of outcomes)
        expect(outcome).toMatchObject({
          reason: { name: 'StorageError', code: 'Full', message: `nothing was written: no space is left in ${directory.path}` },
        });
      expect(await keys(storage)).toEqual(['/before']);
      expect(storage.stats).toMatchObject({ revision, isRejecting: true });
      expect(storage.checkHealth()).toMatchObject({ healthy: false });
      disk.onChange = () => undefined;
      expect(await put(storage, '/after')).toMatchObject({ ok: true, revision: revision + 1 });
      expect(storage.stats.isRejecting).toBe(false);
      expect(storage.checkHealth()).toEqual({ healthy: true });
      await storage.stop();
      expect(await keys(await start())).toEqual(['/after', '/before']);
    },
  );

  it('loses nothing if it fills up at any write, and is emptied again', async () => {
    const disk = new FaultyDisk();
    const storage = await start({ disk, segmentBytes: 4096, snapshotBytes: 1, historyChanges: 1_000 });
    const acknowledged: string[] = [];
    let changes = 0;
    disk.onChange = (what) => {
      changes += 1;
      disk.partial = changes % 3000;
      if (what !== 'remove' && what !== 'truncate' && Math.imul(changes, 2_654_435_761) >>> 0 < 2 ** 32 / 12) throw noSpace();
    };
    for (let at = 0; at < 600; at += 1) {
      const key = `/k${String(at).padStart(5, '0')}`;
      await put(storage, key, 'x'.repeat(1000)).then(
        () => acknowledged.push(key),
        (error: unknown) => expect(error).toMatchObject({ name: 'StorageError', code: expect.stringMatching(/^(Full|Unavailable)$/) }),
      );
    }
    expect(acknowledged.length).toBeGreaterThan(200);
    disk.onChange = () => undefined;
    await put(storage, '/last');
    expect(await keys(storage)).toEqual([...acknowledged, '/last']);
    disk.crash();
    await storage.stop();
    expect(await keys(await start())).toEqual([...acknowledged, '/last']);
  });

  it('deletes expired keys when writes succeed again', async () => {
    const clock = new FakeClock();
    const disk = new FaultyDisk();
    const storage = await start({ disk, clock });
    await storage.commit([{ key: '/ttl', value: Buffer.from('1'), ttlSeconds: 1 }], []);
    let tried: () => void = () => undefined;
    const rejection = new Promise<void>((resolve) => {
      tried = resolve;
    });
    disk.onChange = (what) => {
      if (what !== 'write') return;
      tried();
      throw noSpace();
    };
    await clock.advance(1_000);
    await rejection;
    const changes = storage.watch('/', { after: storage.stats.revision, signal: new AbortController().signal })[Symbol.asyncIterator]();
    await changes.next();
    disk.onChange = () => undefined;
    await expect.poll(() => storage.stats.expiring).toBe(1);
    await clock.advance(5_000);
    expect((await changes.next()).value?.changes).toHaveLength(1);
  });
});

describe('data directory', () => {
  it('is accessible only to its owner, and only to one process', async () => {
    const storage = await start();
    await put(storage, '/a');
    expect((await stat(directory.path)).mode & 0o777).toBe(0o700);
    for (const name of await readdir(directory.path)) expect((await stat(join(directory.path, name))).mode & 0o777).toBe(0o600);
    await expect(start()).rejects.toMatchObject({ code: 'Unavailable', message: `${directory.path} is in use by process ${process.pid}` });
    expect((await storage.get('/a')).entry).toBeDefined();
    await storage.stop();
    expect(await keys(await start())).toEqual(['/a']);
  });

  it('continues after a given revision, as if all earlier ones were compacted', async () => {
    const storage = await start();
    await put(storage, '/a');
    await storage.skipTo(5_000);
    await expect(storage.get('/a', { revision: 4_999 })).rejects.toMatchObject({ code: 'Compacted' });
    expect(await put(storage, '/b')).toMatchObject({ revision: 5_001 });
    await storage.stop();
    const again = await start();
    expect(again.stats).toMatchObject({ revision: 5_001, compacted: 5_000 });
    expect(await keys(again)).toEqual(['/a', '/b']);
  });

  it('acknowledges the commits that were submitted before the stop', async () => {
    const storage = await start();
    const writing = Promise.all(Array.from({ length: 50 }, (_, at) => put(storage, `/k${at}`)));
    await Promise.resolve();
    await storage.stop();
    expect((await writing).every(({ ok }) => ok)).toBe(true);
    await expect(put(storage, '/late')).rejects.toMatchObject({ code: 'Unavailable' });
    expect(await keys(await start())).toHaveLength(50);
  });
});
