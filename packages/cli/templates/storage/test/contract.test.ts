import { storageContract } from '@oarlock/spi/storage/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { __Class__ } from '../src/storage.ts';

storageContract('__ID__', async () => {
  const clock = new FakeClock();
  const driver = new __Class__({ clock, maxValueBytes: 1_572_864 });
  return { driver, dispose: () => driver.stop(), tick: (ms) => clock.advance(ms) };
});
