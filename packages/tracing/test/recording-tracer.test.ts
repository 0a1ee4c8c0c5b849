import { spanContextOf, failSpan, formatTraceparent, inSpan, parseTraceparent, startSpan } from '@oarlock/kernel/tracing';
import type { RecordedSpan } from '@oarlock/spi/spans';
import { recordingTracer } from '@oarlock/tracing/recording-tracer';
import { SpanStatusCode } from '@opentelemetry/api';
import { beforeEach, describe, expect, it } from 'vitest';

let recorded: RecordedSpan[];
let tracer: ReturnType<typeof recordingTracer>;
beforeEach(() => {
  recorded = [];
  tracer = recordingTracer('apiserver', 'host:7', (span) => {
    recorded.push(span.toRecordedSpan());
  });
});
const only = () => {
  expect(recorded).toHaveLength(1);
  return recorded[0] as RecordedSpan;
};

describe('recording tracer', () => {
  it('passes an ended span to the sink once', () => {
    const span = startSpan(tracer, 'create pods', { attributes: { 'oarlock.object': 'pods/d/a', count: 3, done: true } });
    expect(recorded).toEqual([]);
    expect(span.isRecording()).toBe(true);
    span.end();
    span.end();
    expect(span.isRecording()).toBe(false);
    expect(only()).toMatchObject({
      name: 'create pods',
      scope: 'apiserver',
      process: 'host:7',
      attributes: { 'oarlock.object': 'pods/d/a', count: 3, done: true },
      links: [],
    });
    expect(only()).not.toHaveProperty('parentId');
    expect(only()).not.toHaveProperty('error');
  });

  it('generates unique ids in W3C format', () => {
    const ids = new Set<string>();
    for (let n = 0; n < 5_000; n++) {
      const { traceId, spanId } = startSpan(tracer, 'x').spanContext();
      expect(traceId).toMatch(/^[0-9a-f]{32}$/);
      expect(spanId).toMatch(/^[0-9a-f]{16}$/);
      ids.add(traceId).add(spanId);
    }
    expect(ids.size).toBe(10_000);
  });

  it('continues the trace of its cause, in this process or another', () => {
    const first = startSpan(tracer, 'first');
    const second = startSpan(tracer, 'second', { spanContext: spanContextOf(first) });
    const remote = parseTraceparent(formatTraceparent(second.spanContext()));
    startSpan(tracer, 'third', { spanContext: remote }).end();
    expect(only()).toMatchObject({ traceId: first.spanContext().traceId, parentId: second.spanContext().spanId });
  });

  it('keeps links to the other causes', () => {
    const [a, b, c] = [startSpan(tracer, 'a'), startSpan(tracer, 'b'), startSpan(tracer, 'c')].map((span) => span.spanContext());
    if (!a || !b || !c) throw new Error('no contexts');
    const span = startSpan(tracer, 'joined', { spanContext: a, links: [b] });
    span.addLink({ context: c });
    span.end();
    expect(only()).toMatchObject({
      traceId: a.traceId,
      parentId: a.spanId,
      links: [
        { traceId: b.traceId, spanId: b.spanId },
        { traceId: c.traceId, spanId: c.spanId },
      ],
    });
  });

  it('accepts explicit start and end times', () => {
    const at = Date.UTC(2026, 0, 1);
    startSpan(tracer, 'past', { startTime: at }).end(at + 12.5);
    startSpan(tracer, 'date', { startTime: new Date(at) }).end([at / 1000 + 1, 500_000_000]);
    expect(recorded.map(({ start, end }) => ({ start, end }))).toEqual([
      { start: at, end: at + 12.5 },
      { start: at, end: at + 1500 },
    ]);
    startSpan(tracer, 'now').end();
    expect(Math.abs((recorded[2]?.start ?? 0) - Date.now())).toBeLessThan(60_000);
    expect(recorded[2]?.end).toBeGreaterThanOrEqual(recorded[2]?.start ?? Infinity);
  });

  it('records errors', async () => {
    await expect(
      inSpan(tracer, 'fails', {}, async () => {
        throw new Error('no space left');
      }),
    ).rejects.toThrow('no space left');
    expect(only().error).toBe('no space left');
    const span = startSpan(tracer, 'recovers');
    failSpan(span, 'for a moment');
    span.setStatus({ code: SpanStatusCode.OK });
    span.end();
    expect(recorded[1]).not.toHaveProperty('error');
    const silent = startSpan(tracer, 'silent');
    silent.setStatus({ code: SpanStatusCode.ERROR });
    silent.end();
    expect(recorded[2]?.error).toBe('failed');
  });

  it('converts attributes to plain values, and ignores changes after the end', () => {
    const span = startSpan(tracer, 'x');
    span
      .setAttributes({ list: ['a', 'b'], none: undefined, text: 'b' })
      .updateName('y')
      .addEvent('told');
    span.end();
    expect(only()).toMatchObject({ name: 'y', attributes: { list: '["a","b"]', text: 'b', 'event.told': expect.any(Number) } });
    expect(only().attributes).not.toHaveProperty('none');
  });

  it('runs work in an active span', () => {
    expect(
      tracer.startActiveSpan('work', (span) => {
        span.end();
        return 7;
      }),
    ).toBe(7);
    expect(only().name).toBe('work');
  });
});
