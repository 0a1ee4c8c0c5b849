import { Storage } from '@oarlock/spi/storage';
import { Gauge } from 'prom-client';
import { z } from 'zod';
import { defaults, MemoryStorage } from './memory-storage.ts';

const mebibyte = 1024 * 1024;

export default Storage.plugin({
  id: 'storage-memory',
  declares: { durable: false, shared: false },
  config: z.strictObject({
    historyChanges: z.int().min(1_000).default(defaults.historyChanges),
    historyBytes: z.int().min(mebibyte).default(defaults.historyBytes),
    maxValueBytes: z.int().min(mebibyte).default(defaults.maxValueBytes),
    watchChanges: z.int().min(1_000).default(defaults.watchChanges),
    watchBytes: z.int().min(mebibyte).default(defaults.watchBytes),
  }),
  create({ config }, { clock, metrics }) {
    const storage = new MemoryStorage({ ...config, clock });
    const gauge = (name: string, help: string, value: () => number) =>
      new Gauge({
        name: `oarlock_storage_memory_${name}`,
        help,
        registers: [metrics],
        collect() {
          this.set(value());
        },
      });
    gauge('revision', 'Newest revision.', () => storage.stats.revision);
    gauge('keys', 'Number of existing keys.', () => storage.stats.keys);
    gauge('history_changes', 'Changes since the last compaction.', () => storage.stats.history);
    gauge('history_bytes', 'Approximate memory of the history in bytes.', () => storage.stats.historyBytes);
    gauge('watches', 'Open watches.', () => storage.stats.watches);
    return storage;
  },
});
