import { registerStoreMetrics } from '@oarlock/mvcc/store-metrics';
import { Storage } from '@oarlock/spi/storage';
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
    registerStoreMetrics(metrics, 'oarlock_storage_memory', () => storage.stats);
    return storage;
  },
});
