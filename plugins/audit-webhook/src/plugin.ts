import { Audit, type AuditEvent } from '@oarlock/spi/audit';
import { jsonEndpointKeys, hasOneEndpoint, oneEndpointMessage } from '@oarlock/webhook-client/endpoint-config';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { Counter, type Registry } from 'prom-client';
import { z } from 'zod';
import { BufferedBackend, pause } from './buffered-backend.ts';
import { eventList, eventText } from './event-list.ts';

const growth = 1.5;
const attempts = 5;
const count = z.int().min(1);

/** Registers the metrics of lost events and returns a function that counts them. */
function lostEventCounter(metrics: Registry): (events: number) => void {
  const dropped = new Counter({ name: 'audit_webhook_dropped_total', help: 'Audit events that were not sent.', registers: [metrics] });
  const errors = new Counter({
    name: 'apiserver_audit_error_total',
    help: 'Audit events that a plugin could not write.',
    labelNames: ['plugin'],
    registers: [metrics],
  });
  return (events) => {
    dropped.inc(events);
    errors.inc({ plugin: 'webhook' }, events);
  };
}

/** Sends audit events to a webhook as EventLists of `audit.k8s.io/v1`. */
export default Audit.plugin({
  id: 'audit-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      /**
       * `batch`: events are buffered and requests do not wait. `blocking`: requests wait until their events are sent. `blocking-strict`: as
       * `blocking`, and a request fails if its first event cannot be sent.
       */
      mode: z.enum(['batch', 'blocking', 'blocking-strict']).default('batch'),
      timeoutSeconds: z.number().positive().max(60).default(10),
      /** The delay before the second attempt, in seconds. The delay grows with each attempt. A batch is dropped after five attempts. */
      initialBackoffSeconds: z.number().positive().max(300).default(10),
      /** The maximum number of buffered events in mode `batch`. Events beyond the limit are dropped and counted. */
      bufferSize: count.max(1_000_000).default(10_000),
      maxBatchSize: count.max(10_000).default(400),
      maxBatchWaitSeconds: z.number().min(0).max(300).default(30),
      /** The rate limit in batches per second. `burst` is the number of batches that may be sent at once. */
      throttle: z
        .strictObject({ qps: z.number().positive().default(10), burst: count.default(15) })
        .nullable()
        .prefault({}),
      /** The maximum length of an event. The objects of a longer event are omitted; an event that is still too long is dropped. */
      maxEventBytes: z.int().min(1024).max(3_000_000).default(102_400),
    })
    .refine(hasOneEndpoint, oneEndpointMessage),
  create({ config }, { clock, log, metrics }) {
    const { mode, maxEventBytes, initialBackoffSeconds, throttle } = config;
    const countLost = lostEventCounter(metrics);
    const service = new JsonClient(config);
    const post = async (events: readonly string[]): Promise<void> => {
      const code = await service.send(eventList(events), config.timeoutSeconds * 1000);
      if (code < 200 || code > 299) throw new Error(`the audit webhook returned status ${code}`);
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
          countLost(events.length);
          log.error({ err: error, events: events.length }, 'sending audit events failed');
          return;
        }
      }
    };
    const batches = new BufferedBackend({
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
        countLost(1);
        log.error({ err: error }, 'sending an audit event failed');
        if (mode === 'blocking-strict') throw error;
      });
      const completion = sent.then(
        () => {},
        () => {},
      );
      inFlight.add(completion);
      void completion.then(() => inFlight.delete(completion));
      return sent;
    };
    let stopped = false;
    return {
      record(event: AuditEvent) {
        const line = stopped ? undefined : eventText(event, maxEventBytes);
        if (line !== undefined && mode !== 'batch') return sendNow(line);
        if (line === undefined || !batches.add(line)) countLost(1);
      },
      async stop() {
        stopped = true;
        await Promise.all([batches.stop(), ...inFlight]);
        service.close();
      },
    };
  },
});
