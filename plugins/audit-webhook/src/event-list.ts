import { stringifyExact } from '@oarlock/api/exact-json';
import type { AuditEvent } from '@oarlock/spi/audit';

/** The body of a request with events that are JSON already. */
export const eventList = (events: readonly string[]): string =>
  `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[${events.join(',')}]}`;

/** The event as JSON; without its objects where it would be too long. Undefined where that does not help. */
export function eventText(event: AuditEvent, maxBytes: number): string | undefined {
  const whole = stringifyExact(event);
  if (Buffer.byteLength(whole) <= maxBytes) return whole;
  const { requestObject: _, responseObject: __, ...rest } = event;
  const short = stringifyExact({ ...rest, annotations: { ...event.annotations, 'audit.k8s.io/truncated': 'true' } });
  return Buffer.byteLength(short) <= maxBytes ? short : undefined;
}
