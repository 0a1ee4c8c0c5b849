import type { RecordedSpan } from '@oarlock/spi/spans';

/** Returns a span for tests. Ids are derived from a short name; times are milliseconds. */
export function span(id: string, more: Partial<RecordedSpan> = {}): RecordedSpan {
  return {
    traceId: 't'.padStart(32, '0').replace('t', '1'),
    spanId: spanId(id),
    links: [],
    name: id,
    scope: 'test',
    process: 'host:1',
    start: 0,
    end: 1,
    attributes: {},
    ...more,
  };
}
export const spanId = (id: string): string => Buffer.from(id.slice(0, 8).padEnd(8, '.')).toString('hex');
