import { join } from 'node:path';
import { registerStoreMetrics } from '@oarlock/mvcc/store-metrics';
import { Storage } from '@oarlock/spi/storage';
import { Gauge } from 'prom-client';
import { z } from 'zod';
import { defaults, EmbeddedStorage } from './embedded-storage.ts';

const mebibyte = 1024 * 1024;

export default Storage.plugin({
  id: 'storage-embedded',
  declares: { durable: true, shared: false },
  config: z.strictObject({
    directory: z.string().min(1).optional(),
    historyChanges: z.int().min(1_000).default(defaults.historyChanges),
    historyBytes: z.int().min(mebibyte).default(defaults.historyBytes),
    maxValueBytes: z
      .int()
      .min(mebibyte)
      .max(32 * mebibyte)
      .default(defaults.maxValueBytes),
    watchChanges: z.int().min(1_000).default(defaults.watchChanges),
    watchBytes: z.int().min(mebibyte).default(defaults.watchBytes),
    segmentBytes: z.int().min(mebibyte).default(defaults.segmentBytes),
    snapshotBytes: z.int().min(mebibyte).default(defaults.snapshotBytes),
  }),
  create({ config: { directory, ...config } }, { clock, log, metrics, dataDir }) {
    const storage = new EmbeddedStorage({ ...config, directory: directory ?? join(dataDir, 'store'), clock, log });
    const gauge = registerStoreMetrics(metrics, 'oarlock_storage_embedded', () => storage.stats);
    gauge('commits', 'Commits since the start.', () => storage.stats.commits);
    gauge('batches', 'Writes to the disk since the start, each of one commit or more.', () => storage.stats.batches);
    gauge('log_bytes', 'Bytes in the write-ahead log.', () => storage.stats.logBytes);
    gauge('log_segments', 'Files of the write-ahead log.', () => storage.stats.segments);
    gauge('snapshots', 'Snapshots made since the start.', () => storage.stats.snapshots);
    gauge('snapshot_bytes', 'Bytes of the newest snapshot.', () => storage.stats.snapshotBytes);
    gauge('refusing', '1 while commits are rejected because they cannot be written.', () => (storage.stats.isRejecting ? 1 : 0));
    new Gauge({
      name: 'apiserver_storage_size_bytes',
      help: 'Bytes that the storage takes on its disk.',
      labelNames: ['storage_cluster_id'],
      registers: [metrics],
      collect() {
        this.set({ storage_cluster_id: 'embedded' }, storage.stats.logBytes + storage.stats.snapshotBytes);
      },
    });
    return storage;
  },
});
