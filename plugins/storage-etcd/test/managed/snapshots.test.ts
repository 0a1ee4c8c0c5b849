import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Snapshots } from '../../src/managed/snapshots.ts';

let directory: string;
let clock: FakeClock;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-snapshots-'));
  clock = new FakeClock();
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const { signal } = new AbortController();
const content = Buffer.from('the database of a member');
const digest = createHash('sha256').update(content).digest();

/** Snapshots of a member that sends these parts. */
function snapshotsOf(...parts: readonly Buffer[]): Snapshots {
  async function* open() {
    for (const blob of parts) yield { remaining_bytes: 0, blob };
  }
  return new Snapshots({ directory: join(directory, 'snapshots'), server: 'server-a', open, clock });
}
const whole = () => snapshotsOf(content.subarray(0, 5), content.subarray(5), digest);

describe('a snapshot', () => {
  it('has the bytes of the member and its digest, readable by its owner only', async () => {
    const { path, bytes, server } = await whole().save(signal, 'before-upgrade');
    expect(await readFile(path)).toEqual(Buffer.concat([content, digest]));
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect([bytes, server]).toEqual([content.length + digest.length, 'server-a']);
  });

  it('is not kept if its digest does not match, or if the member ends early', async () => {
    for (const broken of [snapshotsOf(content, Buffer.alloc(32)), snapshotsOf(content.subarray(0, 3))])
      await expect(broken.save(signal, 'broken')).rejects.toThrow('its digest does not match');
    expect(await readdir(join(directory, 'snapshots'))).toEqual([]);
  });

  it.each(['', '../escape', 'a/b', '.hidden', 'a'.repeat(129), 'x.part'])('is rejected with the name %j', async (name) => {
    await expect(whole().save(signal, name)).rejects.toThrow('the name of a snapshot');
  });

  it('does not replace another one', async () => {
    await whole().save(signal, 'one');
    await expect(whole().save(signal, 'one')).rejects.toThrow('there is a snapshot one already');
  });
});

describe('scheduled snapshots', () => {
  it('are removed beyond the retention, the oldest first; others are kept', async () => {
    const snapshots = whole();
    await snapshots.save(signal, 'mine');
    for (let hour = 0; hour < 4; hour += 1) {
      await clock.advance(3_600_000);
      const { path } = await snapshots.saveScheduled(signal, 100);
      const at = clock.now() / 1000;
      await utimes(path, at, at);
    }
    await clock.advance(3_600_000);
    await snapshots.saveScheduled(signal, 2);
    const names = (await snapshots.list()).map(({ name }) => name);
    expect(names).toContain('mine');
    expect(names.filter((name) => name.startsWith('etcd-snapshot-server-a-'))).toHaveLength(2);
  });

  it('are due again although the clock was set back since the last one', async () => {
    const now = Date.now();
    clock = new FakeClock({ start: now });
    const { path } = await whole().saveScheduled(signal, 5);
    await utimes(path, now / 1000 + 86_400, now / 1000 + 86_400);
    expect(await whole().lastScheduledAt()).toBe(0);
    await clock.advance(86_400_000);
    expect(await whole().lastScheduledAt()).toBe(now + 86_400_000);
  });

  it('are found again after a restart', async () => {
    clock = new FakeClock({ start: Date.now() + 60_000 });
    expect(await whole().lastScheduledAt()).toBe(0);
    const { createdAt } = await whole().saveScheduled(signal, 5);
    expect(await whole().lastScheduledAt()).toBe(Date.parse(createdAt));
  });
});
