import { stringifyExact } from '@oarlock/api/json/exact-json';
import type { AuditEvent } from '@oarlock/spi/audit';

/** Returns the body of a webhook request: an EventList of the given JSON events. */
export const eventList = (events: readonly string[]): string =>
  `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[${events.join(',')}]}`;

/** Returns the event as JSON. Omits the event's objects if the JSON would exceed `maxBytes`; returns undefined if it still does. */
export function eventText(event: AuditEvent, maxBytes: number): string | undefined {
  const whole = stringifyExact(event);
  if (Buffer.byteLength(whole) <= maxBytes) return whole;
  const { requestObject: _, responseObject: __, ...rest } = event;
  const short = stringifyExact({ ...rest, annotations: { ...event.annotations, 'audit.k8s.io/truncated': 'true' } });
  return Buffer.byteLength(short) <= maxBytes ? short : undefined;
}
