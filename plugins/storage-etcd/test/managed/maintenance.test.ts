import { FakeClock } from '@oarlock/testing/fake-clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { describe, expect, it, vi } from 'vitest';
import { Maintenance, type MaintenanceSettings } from '../../src/managed/maintenance.ts';

const gibibyte = 1024 ** 3;
const member = (name: string, role: StorageMember['role'], databaseBytesInUse = gibibyte): StorageMember => ({
  ...{ name, id: name, endpoint: '', role, version: '3.4.23', databaseBytes: gibibyte, databaseBytesInUse, alarms: [] },
});

function setUp(list: readonly StorageMember[], settings: Partial<MaintenanceSettings> = {}, lastSnapshotAt = 0) {
  const clock = new FakeClock({ start: Date.UTC(2026, 0, 1, 2, 30) });
  let last = lastSnapshotAt;
  const saveScheduled = vi.fn(async () => {
    last = clock.now();
    return { name: 'etcd-snapshot-a-1', server: 'a', path: '/s', bytes: 1, createdAt: '' };
  });
  let present = list;
  const replace = (name: string, change: Partial<StorageMember>) => {
    present = present.map((each) => (each.name === name ? { ...each, ...change } : each));
  };
  const defragmentMember = vi.fn(async ({ name }: StorageMember) => replace(name, { databaseBytes: gibibyte / 4 }));
  const newest = { name: 'etcd-snapshot-a-1', path: '/s', createdAt: '2026-01-01T00:00:00Z' };
  const remote = {
    has: vi.fn(async (_name: string) => false),
    save: vi.fn(async (_snapshot: { readonly name: string }) => undefined),
  };
  const snapshots = { lastScheduledAt: async () => last, saveScheduled, newestScheduled: async () => newest };
  const members = { snapshots, remote, list: async () => present, defragmentMember };
  const maintenance = new Maintenance({
    settings: { snapshotHours: 12, retention: 5, defragmentHour: 3, ...settings },
    quotaBytes: 2 * gibibyte,
    // the parts of the class that are used
    members: members as unknown as ConstructorParameters<typeof Maintenance>[0]['members'],
    ...{ server: 'a', clock, log: silentLogger, signal: new AbortController().signal },
  });
  const defragmented = () => defragmentMember.mock.calls.map(([{ name }]) => name);
  return { clock, maintenance, remote, saveScheduled, defragmentMember, defragmented, replace };
}

describe('scheduled snapshots', () => {
  it('are written at the first check and after each interval', async () => {
    const { clock, maintenance, saveScheduled } = setUp([]);
    await maintenance.run();
    await clock.advance(12 * 3_600_000 - 1);
    await maintenance.run();
    expect(saveScheduled).toHaveBeenCalledTimes(1);
    await clock.advance(1);
    await maintenance.run();
    expect(saveScheduled).toHaveBeenCalledTimes(2);
    expect(saveScheduled).toHaveBeenLastCalledWith(expect.anything(), 5);
  });

  it('have a time before the first check, that of the newest on the disk', async () => {
    const { clock, maintenance } = setUp([]);
    await maintenance.run();
    const { lastSnapshotAt } = maintenance;
    const restarted = setUp([], {}, lastSnapshotAt);
    await restarted.maintenance.start();
    expect(restarted.maintenance.lastSnapshotAt).toBe(clock.now());
    await restarted.maintenance.stop();
  });

  it('are not written with the interval 0', async () => {
    const { maintenance, saveScheduled } = setUp([], { snapshotHours: 0 });
    await maintenance.run();
    expect(saveScheduled).not.toHaveBeenCalled();
  });

  it('are tried again after a failure, which is counted', async () => {
    const { maintenance, saveScheduled } = setUp([]);
    saveScheduled.mockRejectedValueOnce(new Error('no space left on device'));
    await maintenance.run();
    await maintenance.run();
    expect(saveScheduled).toHaveBeenCalledTimes(2);
    expect(maintenance.snapshotFailures).toBe(1);
  });
});

describe('copies of scheduled snapshots', () => {
  it('are uploaded once, also those of before a restart', async () => {
    const { maintenance, remote } = setUp([]);
    await maintenance.run();
    await maintenance.run();
    expect(remote.save.mock.calls.map(([{ name }]) => name)).toEqual(['etcd-snapshot-a-1']);
    const after = setUp([]);
    after.remote.has.mockResolvedValue(true);
    expect(after.maintenance.lastUploadedAt).toBeUndefined();
    await after.maintenance.run();
    expect(after.remote.save).not.toHaveBeenCalled();
    expect(after.maintenance.lastUploadedAt).toBe(Date.UTC(2026, 0, 1));
  });

  it('are tried again after a failure, with longer delays, while snapshots and defragmentation go on', async () => {
    const { clock, maintenance, remote, saveScheduled } = setUp([]);
    remote.save.mockRejectedValue(new Error('the store cannot be reached'));
    const attempts: number[] = [];
    for (let minute = 0; minute < 16; minute += 1) {
      await maintenance.run();
      attempts.push(remote.save.mock.calls.length);
      await clock.advance(60_000);
    }
    expect(attempts).toEqual([1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5]);
    expect([maintenance.uploadFailures, maintenance.snapshotFailures]).toEqual([5, 0]);
    expect(saveScheduled).toHaveBeenCalledTimes(1);
  });
});

describe('defragmentation', () => {
  const fragmented = ['Leader', 'Follower', 'Follower'].map((role, index) =>
    member('abc'.charAt(index), role as StorageMember['role'], gibibyte / 4),
  );

  it('takes place in its hour only, the leader last', async () => {
    const { clock, maintenance, defragmented } = setUp(fragmented);
    await maintenance.run();
    expect(defragmented()).toEqual([]);
    await clock.advance(30 * 60_000);
    await maintenance.run();
    await maintenance.run();
    expect(defragmented()).toEqual(['b', 'c', 'a']);
  });

  it('omits members that are not fragmented, and does not repeat what freed nothing', async () => {
    const { clock, maintenance, defragmentMember, defragmented } = setUp([member('a', 'Leader'), ...fragmented.slice(1)]);
    defragmentMember.mockResolvedValue(undefined);
    await clock.advance(30 * 60_000);
    await maintenance.run();
    await maintenance.run();
    expect(defragmented()).toEqual(['b', 'c']);
  });

  it.each([
    ['a member is not healthy any more', { role: 'Unknown' }, 'c'],
    ['another member leads', { role: 'Follower' }, 'a'],
    ['the call fails', new Error('the member is gone'), 'c'],
  ] as const)('ends after a member if %s, and continues later', async (_, change, name) => {
    const { clock, maintenance, defragmentMember, defragmented, replace } = setUp(fragmented);
    defragmentMember.mockImplementationOnce(async () => {
      replace('b', { databaseBytes: gibibyte / 4 });
      if (change instanceof Error) throw change;
      replace(name, change);
    });
    await clock.advance(30 * 60_000);
    await maintenance.run();
    expect(defragmented()).toEqual(['b']);
    replace(name, { role: name === 'a' ? 'Leader' : 'Follower' });
    await maintenance.run();
    expect(defragmented()).toEqual(['b', 'c', 'a']);
  });

  it.each([
    ['this server does not lead', [member('a', 'Follower', gibibyte / 4), member('b', 'Leader')]],
    ['a member is away', [...fragmented, member('d', 'Unknown')]],
    ['a member is a learner', [...fragmented, member('d', 'Learner')]],
    ['a member is corrupt', [...fragmented, { ...member('d', 'Follower'), alarms: ['CORRUPT'] }]],
    ['the databases are in use', [member('a', 'Leader'), member('b', 'Follower')]],
  ])('does not take place if %s', async (_, list) => {
    const { clock, maintenance, defragmented } = setUp(list);
    await clock.advance(30 * 60_000);
    await maintenance.run();
    expect(defragmented()).toEqual([]);
  });
});
