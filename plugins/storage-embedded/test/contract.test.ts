import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { storageContract } from '@oarlock/spi/storage/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { EmbeddedStorage } from '../src/embedded-storage.ts';
import { FaultyDisk, makeDirectory } from './support/directory.ts';

const lagBytes = 4 * 1024 * 1024;

const open = (sizes: { readonly segmentBytes?: number; readonly snapshotBytes?: number }) => async () => {
  const directory = await makeDirectory();
  const clock = new FakeClock();
  const disk = new FaultyDisk();
  const options = { directory: directory.path, clock, watchBytes: lagBytes, ...sizes };
  const driver = new EmbeddedStorage({ ...options, disk });
  const drivers = [driver];
  await driver.start();
  return {
    driver,
    lagBytes,
    tick: (ms: number) => clock.advance(ms),
    cost: () => driver.stats.steps,
    reopen: async () => {
      disk.crash();
      // the holder of the lock, this process, is alive
      await rm(join(directory.path, 'lock'));
      const again = new EmbeddedStorage(options);
      drivers.push(again);
      await again.start();
      return again;
    },
    dispose: async () => {
      for (const each of drivers) await each.stop();
      await directory.remove();
    },
  };
};

storageContract('storage-embedded', open({}), { runs: 50 });
// the minimum sizes, so that new files and snapshots are created all the time
storageContract('storage-embedded in small files', open({ segmentBytes: 4096, snapshotBytes: 1 }), { runs: 10 });
