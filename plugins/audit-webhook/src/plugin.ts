import { Audit, type AuditEvent } from '@oarlock/spi/audit';
import { jsonEndpointKeys, namesOneEndpoint, oneEndpointWanted } from '@oarlock/spi/json-endpoint';
import { JsonClient } from '@oarlock/spi/json-post';
import { Counter } from 'prom-client';
import { z } from 'zod';
import { Batches, pause } from './batches.ts';
import { eventList, eventText } from './event-list.ts';

const growth = 1.5;
const attempts = 5;
const count = z.int().min(1);

/** Sends events to a service outside, as EventLists of `audit.k8s.io/v1`. */
export default Audit.plugin({
  id: 'audit-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      /** Whether requests wait for their events to be sent. In `blocking-strict`, one whose first event cannot be sent fails. */
      mode: z.enum(['batch', 'blocking', 'blocking-strict']).default('batch'),
      timeoutSeconds: z.number().positive().max(60).default(10),
      /** Before the second attempt; later ones wait longer. A batch is given up after five. */
      initialBackoffSeconds: z.number().positive().max(300).default(10),
      /** In `batch`: events that may wait. More are dropped and counted. */
      bufferSize: count.max(1_000_000).default(10_000),
      maxBatchSize: count.max(10_000).default(400),
      maxBatchWaitSeconds: z.number().min(0).max(300).default(30),
      /** Batches a second, and how many of them at once. */
      throttle: z
        .strictObject({ qps: z.number().positive().default(10), burst: count.default(15) })
        .nullable()
        .prefault({}),
      /** An event that is longer is sent without its objects, or not at all. */
      maxEventBytes: z.int().min(1024).max(3_000_000).default(102_400),
    })
    .refine(namesOneEndpoint, oneEndpointWanted),
  create({ config }, { clock, log, metrics }) {
    const { mode, maxEventBytes, initialBackoffSeconds, throttle } = config;
    const dropped = new Counter({ name: 'audit_webhook_dropped_total', help: 'Audit events that were not sent.', registers: [metrics] });
    const service = new JsonClient(config);
    const post = async (events: readonly string[]): Promise<void> => {
      const code = await service.send(eventList(events), config.timeoutSeconds * 1000);
      if (code < 200 || code > 299) throw new Error(`the audit webhook answered ${code}`);
    };
    const send = async (events: readonly string[], signal: AbortSignal): Promise<void> => {
      for (let attempt = 1; ; attempt++) {
        try {
          return await post(events);
        } catch (error) {
          if (attempt < attempts && !signal.aborted) {
            await pause(clock, initialBackoffSeconds * 1000 * growth ** (attempt - 1), signal);
            continue;
          }
          dropped.inc(events.length);
          log.error({ err: error, events: events.length }, 'audit events could not be sent');
          return;
        }
      }
    };
    const batches = new Batches({
      bufferSize: config.bufferSize,
      maxSize: config.maxBatchSize,
      maxWaitMs: config.maxBatchWaitSeconds * 1000,
      throttle: throttle ?? undefined,
      clock,
      send,
    });
    const inFlight = new Set<Promise<void>>();
    const sendNow = (line: string): Promise<void> => {
      const sent = post([line]).catch((error: unknown) => {
        dropped.inc();
        log.error({ err: error }, 'an audit event could not be sent');
        if (mode === 'blocking-strict') throw error;
      });
      const settled = sent.then(
        () => {},
        () => {},
      );
      inFlight.add(settled);
      void settled.then(() => inFlight.delete(settled));
      return sent;
    };
    let stopped = false;
    return {
      record(event: AuditEvent) {
        const line = stopped ? undefined : eventText(event, maxEventBytes);
        if (line !== undefined && mode !== 'batch') return sendNow(line);
        if (line === undefined || !batches.add(line)) dropped.inc();
      },
      async stop() {
        stopped = true;
        await Promise.all([batches.stop(), ...inFlight]);
        service.close();
      },
    };
  },
});
