import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Audit } from '@oarlock/spi/audit';
import { Counter } from 'prom-client';
import { z } from 'zod';
import { EventWriter } from './event-writer.ts';
import { RotatingFile } from './rotating-file.ts';

const dayMs = 86_400_000;

/** Writes each audit event as a line of JSON to a file, as kube-apiserver does with `--audit-log-path`. */
export default Audit.plugin({
  id: 'audit-log',
  config: z.strictObject({
    /** The path of the log file; by default `audit.log` in the plugin's data directory. A missing directory is created. */
    path: z.string().min(1).optional(),
    maxSizeMegabytes: z.number().positive().max(100_000).default(100),
    /**
     * The maximum age in days and the maximum number of rotated files; 0 keeps all files. The defaults are those of the CIS Kubernetes Benchmark
     * (1.2.17 to 1.2.19).
     */
    maxAgeDays: z.int().min(0).default(30),
    maxBackups: z.int().min(0).default(10),
    compress: z.boolean().default(false),
    /**
     * `blocking`: requests wait until their events are written. `blocking-strict`: as `blocking`, and a request fails if its first event cannot be
     * written. `batch`: events are buffered and requests do not wait.
     */
    mode: z.enum(['blocking', 'blocking-strict', 'batch']).default('blocking'),
    /** The maximum number of buffered events in mode `batch`. Events beyond the limit are dropped and counted. */
    bufferSize: z.int().min(1).max(1_000_000).default(10_000),
    /** How long a write waits for further events in mode `batch`, in milliseconds. A killed process loses the events of this time. */
    batchMaxWaitMs: z.int().min(0).max(60_000).default(100),
  }),
  create({ config }, { clock, log, metrics, dataDir }) {
    const dropped = new Counter({ name: 'audit_log_dropped_total', help: 'Audit events that were not written.', registers: [metrics] });
    const errors = new Counter({
      name: 'apiserver_audit_error_total',
      help: 'Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.',
      labelNames: ['plugin'],
      registers: [metrics],
    });
    const { path = join(dataDir, 'audit.log'), maxSizeMegabytes, maxAgeDays, maxBackups, compress } = config;
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
      clock,
      append: (lines) => file.append(lines),
      onLost(events, error) {
        dropped.inc(events);
        errors.inc({ plugin: 'log' }, events);
        if (error !== undefined) log.error({ err: error, events }, 'writing audit events failed');
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
