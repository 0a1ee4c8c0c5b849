import { FakeClock } from '@oarlock/testing/fake-clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { describe, expect, it, vi } from 'vitest';
import { Maintenance, type MaintenanceSettings } from '../../src/managed/maintenance.ts';

const gibibyte = 1024 ** 3;
const member = (name: string, role: StorageMember['role'], databaseBytesInUse = gibibyte): StorageMember => ({
  ...{ name, id: name, endpoint: '', role, version: '3.4.23', databaseBytes: gibibyte, databaseBytesInUse, alarms: [] },
});

function setUp(list: readonly StorageMember[], settings: Partial<MaintenanceSettings> = {}) {
  const clock = new FakeClock({ start: Date.UTC(2026, 0, 1, 2, 30) });
  let last = 0;
  const saveScheduled = vi.fn(async () => {
    last = clock.now();
    return { name: 'etcd-snapshot-a-1', server: 'a', path: '/s', bytes: 1, createdAt: '' };
  });
  const defragment = vi.fn(async () => list.map(({ name }) => name));
  const newest = { name: 'etcd-snapshot-a-1', path: '/s', createdAt: '2026-01-01T00:00:00Z' };
  const remote = {
    has: vi.fn(async (_name: string) => false),
    save: vi.fn(async (_snapshot: { readonly name: string }) => undefined),
  };
  const snapshots = { lastScheduledAt: async () => last, saveScheduled, newestScheduled: async () => newest };
  const members = { snapshots, remote, list: async () => list, defragment };
  const maintenance = new Maintenance({
    settings: { snapshotHours: 12, retention: 5, defragmentHour: 3, ...settings },
    // the parts of the class that are used
    members: members as unknown as ConstructorParameters<typeof Maintenance>[0]['members'],
    ...{ server: 'a', clock, log: silentLogger, signal: new AbortController().signal },
  });
  return { clock, maintenance, remote, saveScheduled, defragment };
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
  const fragmented = [member('a', 'Leader', gibibyte / 4), member('b', 'Follower')];

  it('takes place in its hour only, once', async () => {
    const { clock, maintenance, defragment } = setUp(fragmented);
    await maintenance.run();
    expect(defragment).not.toHaveBeenCalled();
    await clock.advance(30 * 60_000);
    await maintenance.run();
    await clock.advance(30 * 60_000);
    await maintenance.run();
    expect(defragment).toHaveBeenCalledTimes(1);
  });

  it.each([
    ['this server does not lead', [member('a', 'Follower', gibibyte / 4), member('b', 'Leader')]],
    ['a member is away', [...fragmented, member('c', 'Unknown')]],
    ['the databases are in use', [member('a', 'Leader'), member('b', 'Follower')]],
  ])('does not take place if %s', async (_, list) => {
    const { clock, maintenance, defragment } = setUp(list);
    await clock.advance(30 * 60_000);
    await maintenance.run();
    expect(defragment).not.toHaveBeenCalled();
  });
});
