import { expect, it } from 'vitest';
import { spanContextOf, formatTraceparent, noTracer, parseTraceparent, startSpan } from '../src/tracing.ts';

const header = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

it('parses and formats traceparent headers', () => {
  const spanContext = parseTraceparent(header);
  expect(spanContext).toMatchObject({ traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 });
  expect(spanContext && formatTraceparent(spanContext)).toBe(header);
});
it('parseTraceparent returns undefined for an invalid header', () => {
  for (const bad of [undefined, '', 'x', header.replace('0af7651916cd43dd8448eb211c80319c', '0'.repeat(32)), header.slice(0, 30)])
    expect(parseTraceparent(bad)).toBeUndefined();
});
it('startSpan propagates the parent context when tracing is off', () => {
  const spanContext = parseTraceparent(header);
  expect(spanContextOf(startSpan(noTracer, 'x', { spanContext }))?.traceId).toBe('0af7651916cd43dd8448eb211c80319c');
  expect(spanContextOf(startSpan(noTracer, 'x'))).toBeUndefined();
});
