import { expect, it } from 'vitest';
import { disk, memory } from '../../../src/doctor/checks/space.ts';
import { fakeMachine } from '../../support/fake-machine.ts';

const gibibyte = 2 ** 30;

it.each([
  [{ bytes: 100 * gibibyte, freeBytes: 50 * gibibyte, inodes: 100, freeInodes: 50 }, 'ok'],
  [{ bytes: 100 * gibibyte, freeBytes: 10 * gibibyte, inodes: 100, freeInodes: 50 }, 'warn'],
  [{ bytes: 100 * gibibyte, freeBytes: 50 * gibibyte, inodes: 100, freeInodes: 4 }, 'warn'],
  [{ bytes: 100 * gibibyte, freeBytes: 50 * gibibyte, inodes: 0, freeInodes: 0 }, 'ok'],
  [{ bytes: gibibyte, freeBytes: gibibyte / 2, inodes: 0, freeInodes: 0 }, 'fail'],
])('compares free space and inodes with the thresholds of the kubelet: %j', async (space, level) => {
  expect(await disk.run({ machine: fakeMachine({ space: async () => space }), dataDir: '/data' })).toMatchObject({ level });
});

it('reads the available memory', async () => {
  const find = (kibibytes: number) =>
    memory.run({
      machine: fakeMachine({ files: { '/proc/meminfo': `MemFree: 1 kB\nMemAvailable:   ${kibibytes} kB\n` } }),
      dataDir: '/data',
    });
  expect(await find(2 * 2 ** 20)).toEqual({ level: 'ok', found: '2.0 GiB available' });
  expect(await find(2 ** 17)).toMatchObject({ level: 'warn' });
});
