import { expect, it } from 'vitest';
import { causeOf, formatTraceparent, noTracer, parseTraceparent, startSpan } from '../src/tracing.ts';

const header = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

it('reads and writes traceparent', () => {
  const cause = parseTraceparent(header);
  expect(cause).toMatchObject({ traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 });
  expect(cause && formatTraceparent(cause)).toBe(header);
});
it('takes nothing from a broken header', () => {
  for (const bad of [undefined, '', 'x', header.replace('0af7651916cd43dd8448eb211c80319c', '0'.repeat(32)), header.slice(0, 30)])
    expect(parseTraceparent(bad)).toBeUndefined();
});
it('carries the cause on when tracing is off', () => {
  const cause = parseTraceparent(header);
  expect(causeOf(startSpan(noTracer, 'x', { cause }))?.traceId).toBe('0af7651916cd43dd8448eb211c80319c');
  expect(causeOf(startSpan(noTracer, 'x'))).toBeUndefined();
});
