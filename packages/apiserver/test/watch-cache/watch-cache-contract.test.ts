import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storageContract } from '@oarlock/spi/storage/contract';
import { EmbeddedStorage } from '@oarlock/storage-embedded/embedded-storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { CachedStorage } from '../support/cached-storage.ts';

storageContract('the watch cache over storage-memory', async () => {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  const driver = new CachedStorage(storage, clock);
  await driver.start();
  return {
    driver,
    tick: (ms) => clock.advance(ms),
    dispose: async () => {
      await driver.stop();
      await storage.stop();
    },
  };
});

storageContract(
  'the watch cache over storage-embedded',
  async () => {
    const directory = await mkdtemp(join(tmpdir(), 'oarlock-cached-'));
    const clock = new FakeClock();
    const storage = new EmbeddedStorage({ directory: join(directory, 'store'), clock });
    await storage.start();
    const driver = new CachedStorage(storage, clock);
    await driver.start();
    return {
      driver,
      tick: (ms) => clock.advance(ms),
      dispose: async () => {
        await driver.stop();
        await storage.stop();
        await rm(directory, { recursive: true, force: true });
      },
    };
  },
  { runs: 10 },
);
