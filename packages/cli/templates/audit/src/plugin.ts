import { join } from 'node:path';
import { Audit } from '@oarlock/spi/audit';
import { Counter } from 'prom-client';
import { z } from 'zod';
import { FileSink } from './file-sink.ts';

/** Writes audit events to a file as lines of JSON. */
export default Audit.plugin({
  id: '__ID__',
  config: z.strictObject({
    waiting: z.int().min(1).default(10_000),
    maxBytes: z.int().min(1_000_000).default(100_000_000),
  }),
  create({ config }, { dataDir, log, metrics }) {
    const dropped = new Counter({ name: '__METRIC___dropped_total', help: 'Audit events that were lost.', registers: [metrics] });
    return new FileSink({
      ...config,
      file: join(dataDir, 'audit.log'),
      lost(events, reason) {
        dropped.inc(events);
        log.debug({ events, reason }, 'audit events were lost');
      },
    });
  },
});
