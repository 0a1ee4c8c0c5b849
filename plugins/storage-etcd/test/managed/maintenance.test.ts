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
  const members = { snapshots: { lastScheduledAt: async () => last, saveScheduled }, list: async () => list, defragment };
  const maintenance = new Maintenance({
    settings: { snapshotHours: 12, retention: 5, defragmentHour: 3, ...settings },
    // the parts of the class that are used
    members: members as unknown as ConstructorParameters<typeof Maintenance>[0]['members'],
    ...{ server: 'a', clock, log: silentLogger, signal: new AbortController().signal },
  });
  return { clock, maintenance, saveScheduled, defragment };
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
