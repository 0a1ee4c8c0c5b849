import { silentLogger } from '@oarlock/primitives/logger';
import type { CommitResult, Entry, Precondition, Write } from '@oarlock/spi/storage';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import { AuthorityRollout } from '../../src/managed/authority-rollout.ts';
import { MemberCertificates } from '../../src/managed/member-certificates.ts';
import { restartObstacle } from '../../src/managed/member-health.ts';

const { signal } = new AbortController();
const member = (name: string, more: Partial<StorageMember> = {}): StorageMember => ({
  ...{ name, id: '1', endpoint: '', role: 'Follower', version: '', databaseBytes: 0, databaseBytesInUse: 0, alarms: [], ...more },
});

/** A store of one key, which counts the revisions. */
class LockStore {
  entry: Entry | undefined;
  revision = 1;

  async get() {
    return { entry: this.entry, revision: this.revision };
  }
  async commit([write]: readonly Write[], [expected]: readonly Precondition[]): Promise<CommitResult> {
    if (write === undefined || (this.entry?.revision ?? 0) !== expected?.revision)
      return { ok: false, key: write?.key ?? '', current: this.entry };
    this.revision += 1;
    this.entry = write.value === null ? undefined : { key: write.key, value: write.value, revision: this.revision, created: this.revision };
    return { ok: true, revision: this.revision };
  }
  get owner(): string | undefined {
    return this.entry && Buffer.from(this.entry.value).toString('utf8');
  }
}

describe('the rollout of a CA', () => {
  let store: LockStore;
  let clock: FakeClock;
  let members: StorageMember[];
  const restarts: string[] = [];
  beforeEach(() => {
    store = new LockStore();
    clock = new FakeClock();
    members = [member('a', { role: 'Leader' }), member('b'), member('c')];
    restarts.length = 0;
  });

  /** Starts the rollout of a server whose member is not healthy for some time after its restart. */
  const rollout = (server: string, downMs = 2_000) => {
    let isLoaded = false;
    const certificates = Object.assign(Object.create(MemberCertificates.prototype) as MemberCertificates, {
      issue: async () => undefined,
      isTrustLoadedBy: () => isLoaded,
      removeFormerTrust: async () => undefined,
    });
    const restart = async () => {
      restarts.push(`${server} with the lock of ${store.owner}`);
      isLoaded = true;
      const index = members.findIndex(({ name }) => name === server);
      const before = members[index] ?? member(server);
      members[index] = member(server, { role: 'Unknown' });
      clock.after(downMs, () => (members[index] = before));
    };
    const own = { certificates, command: [], restart };
    return new AuthorityRollout({ storage: store, member: () => own, list: async () => members, server, clock, log: silentLogger });
  };

  it('restarts one member at a time, and releases the lock when all members are healthy', async () => {
    const all = ['a', 'b', 'c'].map((name) => rollout(name).run(signal));
    await clock.advance(500);
    expect(restarts).toHaveLength(1);
    await clock.advance(20_000);
    await Promise.all(all);
    expect([...restarts].sort()).toEqual(['a', 'b', 'c'].map((name) => `${name} with the lock of ${name}`));
    expect(store.owner).toBeUndefined();
  });

  it('waits while a member does not respond', async () => {
    members[2] = member('c', { role: 'Unknown' });
    const running = rollout('a').run(signal);
    await clock.advance(60_000);
    expect([restarts, store.owner]).toEqual([[], undefined]);
    members[2] = member('c');
    await clock.advance(10_000);
    await running;
    expect(restarts).toHaveLength(1);
  });

  it('takes its own lock again after its process has ended, and waits for that of another server', async () => {
    await store.commit([{ key: '/oarlock/etcd-restart', value: Buffer.from('b') }], [{ key: '', revision: 0 }]);
    const running = rollout('a').run(signal);
    await clock.advance(10_000);
    expect(restarts).toEqual([]);
    const other = rollout('b').run(signal);
    await clock.advance(10_000);
    await Promise.all([running, other]);
    expect(restarts).toEqual(['b with the lock of b', 'a with the lock of a']);
  });

  it('renews the lock while a member starts', async () => {
    const running = rollout('a', 50_000).run(signal);
    await clock.advance(1_000);
    const first = store.entry?.revision;
    await clock.advance(40_000);
    expect([store.owner, store.entry?.revision === first]).toEqual(['a', false]);
    await clock.advance(20_000);
    await running;
    expect(store.owner).toBeUndefined();
  });

  it('ends when the server stops', async () => {
    const stop = new AbortController();
    members[2] = member('c', { role: 'Learner' });
    const running = rollout('a').run(stop.signal);
    const ended = expect(running).rejects.toThrow('stopped');
    await clock.advance(1_000);
    stop.abort(new Error('stopped'));
    await ended;
  });
});

it.each([
  [[member('a', { role: 'Leader' }), member('b')], undefined],
  [[member('a'), member('b')], 'no member leads'],
  [[member('a', { role: 'Leader' }), member('b', { role: 'Learner' })], 'b is not healthy'],
  [[member('a', { role: 'Leader' }), member('', { id: '7f', role: 'Unknown' })], '7f is not healthy'],
  [[member('a', { role: 'Leader', alarms: ['NOSPACE'] }), member('b', { alarms: ['CORRUPT'] })], 'b is not healthy'],
])('the obstacle of a restart', (members, obstacle) => {
  expect(restartObstacle(members)).toBe(obstacle);
});
