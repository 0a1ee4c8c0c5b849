import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Audit } from '@oarlock/spi/audit';
import { Counter } from 'prom-client';
import { z } from 'zod';
import { EventWriter } from './event-writer.ts';
import { RotatingFile } from './rotating-file.ts';

const dayMs = 86_400_000;

/** Writes a line of JSON for each event to a file, as `--audit-log-path` of Kubernetes does. */
export default Audit.plugin({
  id: 'audit-log',
  config: z.strictObject({
    /** Its folder is made where it is missing. */
    path: z.string().min(1),
    maxSizeMegabytes: z.number().positive().max(100_000).default(100),
    /** Days and number of files that are kept beside it; 0 keeps all. */
    maxAgeDays: z.int().min(0).default(0),
    maxBackups: z.int().min(0).default(0),
    compress: z.boolean().default(false),
    /** Whether requests wait for their events to be written. In `blocking-strict`, one whose first event cannot be written fails. */
    mode: z.enum(['blocking', 'blocking-strict', 'batch']).default('blocking'),
    /** In `batch`: how many events may wait. More are dropped and counted. */
    bufferSize: z.int().min(1).max(1_000_000).default(10_000),
  }),
  create({ config }, { clock, log, metrics }) {
    const dropped = new Counter({ name: 'audit_log_dropped_total', help: 'Audit events that were not written.', registers: [metrics] });
    const { path, maxSizeMegabytes, maxAgeDays, maxBackups, compress } = config;
    const file = new RotatingFile({
      file: path,
      maxBytes: maxSizeMegabytes * 1024 * 1024,
      maxBackups,
      maxAgeMs: maxAgeDays * dayMs,
      compress,
      now: () => clock.now(),
    });
    const writer = new EventWriter({
      ...config,
      append: (text) => file.append(text),
      lost(events, error) {
        dropped.inc(events);
        if (error !== undefined) log.error({ err: error, events }, 'audit events could not be written');
      },
    });
    return {
      async start() {
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await file.open();
        writer.open();
      },
      record: (event) => writer.record(event),
      async stop() {
        await writer.stop();
        await file.close();
      },
    };
  },
});
