import { storageContract } from '@oarlock/spi/storage/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { MemoryStorage } from '../src/memory-storage.ts';

const lagBytes = 4 * 1024 * 1024;

storageContract(
  'storage-memory',
  async () => {
    const clock = new FakeClock();
    const driver = new MemoryStorage({ clock, watchBytes: lagBytes });
    return { driver, dispose: () => driver.stop(), tick: (ms) => clock.advance(ms), cost: () => driver.stats.steps, lagBytes };
  },
  { runs: 100 },
);
