import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { silentLogger } from '@oarlock/primitives/logger';
import { startSpan } from '@oarlock/kernel/tracing';
import type { RecordedSpan } from '@oarlock/spi/spans';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { otlpBody, otlpSender } from '@oarlock/tracing/otlp';
import { SpanExporter } from '@oarlock/tracing/span-exporter';
import { openTracing } from '@oarlock/tracing/tracing';
import { beforeEach, describe, expect, it } from 'vitest';
import { span, spanId } from '../support/spans.ts';

describe('span exporter', () => {
  let clock: FakeClock;
  let sent: string[][];
  let answer: () => Promise<void>;
  let exporter: SpanExporter;
  beforeEach(() => {
    clock = new FakeClock();
    sent = [];
    answer = async () => {};
    exporter = new SpanExporter({
      clock,
      log: silentLogger,
      maxQueued: 10,
      maxBatch: 4,
      send: async (spans) => {
        sent.push(spans.map(({ name }) => name));
        await answer();
      },
    });
  });
  const add = (from: number, to: number) => {
    for (let n = from; n < to; n++) exporter.add(span(`s${n}`));
  };

  it('collects for a while, then sends in batches, in order', async () => {
    add(0, 6);
    await clock.advance(499);
    expect(sent).toEqual([]);
    await clock.advance(1);
    expect(sent).toEqual([
      ['s0', 's1', 's2', 's3'],
      ['s4', 's5'],
    ]);
    expect(exporter.dropped).toBe(0);
  });

  it('drops and counts spans over the limit while a collector is slow', async () => {
    let open = () => {};
    answer = () =>
      new Promise((resolve) => {
        open = resolve;
      });
    add(0, 4);
    await clock.advance(500);
    add(4, 30);
    expect(exporter.dropped).toBe(16);
    answer = async () => {};
    open();
    await clock.settle();
    expect(sent.flat()).toEqual(Array.from({ length: 14 }, (_, n) => `s${n}`));
  });

  it('drops a batch that cannot be sent, and continues with the next one', async () => {
    answer = () => Promise.reject(new Error('connection refused'));
    add(0, 2);
    await clock.advance(500);
    expect(exporter.dropped).toBe(2);
    answer = async () => {};
    add(2, 3);
    await clock.advance(500);
    expect(sent).toEqual([['s0', 's1'], ['s2']]);
  });

  it('sends the queued spans after a failed batch', async () => {
    let failures = 1;
    answer = () => (failures-- > 0 ? Promise.reject(new Error('away')) : Promise.resolve());
    add(0, 10);
    await clock.advance(5_000);
    expect(sent.flat()).toEqual(Array.from({ length: 10 }, (_, n) => `s${n}`));
    expect(exporter.dropped).toBe(4);
  });

  it('flush sends immediately, including spans added meanwhile, and never rejects', async () => {
    add(0, 5);
    const flushed = exporter.flush();
    add(5, 6);
    await flushed;
    expect(sent.flat()).toEqual(['s0', 's1', 's2', 's3', 's4', 's5']);
    answer = () => Promise.reject(new Error('away'));
    add(6, 7);
    await exporter.flush();
    expect(clock.pending).toBe(0);
  });
});

describe('OTLP', () => {
  it('has the shape of ExportTraceServiceRequest', () => {
    const at = 1_767_225_600_000;
    const body = otlpBody([
      span('parent', {
        scope: 'apiserver',
        start: at,
        end: at + 1.5,
        attributes: { text: 'a', whole: 3, part: 0.5, yes: true, 'oarlock.before': '{}' },
      }),
      span('child', {
        scope: 'kubelet',
        parentId: spanId('parent'),
        start: at + 2,
        end: at + 3,
        error: 'no space',
        links: [{ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) }],
      }),
      span('far', { process: 'other:2', start: at, end: at }),
    ]);
    const traceId = span('x').traceId;
    expect(JSON.parse(JSON.stringify(body))).toEqual({
      resourceSpans: [
        {
          resource: {
            attributes: [
              { key: 'service.name', value: { stringValue: 'oarlock' } },
              { key: 'service.instance.id', value: { stringValue: 'host:1' } },
            ],
          },
          scopeSpans: [
            {
              scope: { name: 'apiserver' },
              spans: [
                {
                  traceId,
                  spanId: spanId('parent'),
                  name: 'parent',
                  kind: 1,
                  startTimeUnixNano: '1767225600000000000',
                  endTimeUnixNano: '1767225600001500000',
                  links: [],
                  status: {},
                  attributes: [
                    { key: 'text', value: { stringValue: 'a' } },
                    { key: 'whole', value: { intValue: '3' } },
                    { key: 'part', value: { doubleValue: 0.5 } },
                    { key: 'yes', value: { boolValue: true } },
                  ],
                },
              ],
            },
            {
              scope: { name: 'kubelet' },
              spans: [
                {
                  traceId,
                  spanId: spanId('child'),
                  parentSpanId: spanId('parent'),
                  name: 'child',
                  kind: 1,
                  startTimeUnixNano: '1767225600002000000',
                  endTimeUnixNano: '1767225600003000000',
                  links: [{ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) }],
                  status: { code: 2, message: 'no space' },
                  attributes: [],
                },
              ],
            },
          ],
        },
        {
          resource: { attributes: expect.arrayContaining([{ key: 'service.instance.id', value: { stringValue: 'other:2' } }]) },
          scopeSpans: [{ scope: { name: 'test' }, spans: [expect.objectContaining({ name: 'far' })] }],
        },
      ],
    });
  });

  it('is sent to /v1/traces of the collector; an error response is reported', async () => {
    const requests: { url: string | undefined; type: string | undefined; body: string }[] = [];
    let status = 200;
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
      });
      request.on('end', () => {
        requests.push({ url: request.url, type: request.headers['content-type'], body: Buffer.concat(chunks).toString() });
        response.writeHead(status).end();
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await otlpSender(base)([span('a')]);
    await otlpSender(`${base}/prefix/`)([span('b')]);
    expect(requests.map(({ url, type }) => ({ url, type }))).toEqual([
      { url: '/v1/traces', type: 'application/json' },
      { url: '/prefix/v1/traces', type: 'application/json' },
    ]);
    expect(JSON.parse(requests[0]?.body ?? '')).toEqual(JSON.parse(JSON.stringify(otlpBody([span('a')]))));
    status = 503;
    await expect(otlpSender(base)([span('c')])).rejects.toThrow('the collector responded with 503');
    server.close();
  });
});

describe('tracing of a process', () => {
  const clock = new FakeClock();

  it('records nothing when it is disabled', () => {
    const { tracer, store } = openTracing({ enabled: false, keep: 100, clock, log: silentLogger });
    const root = startSpan(tracer('x'), 'a');
    root.end();
    expect(root.isRecording()).toBe(false);
    expect(store.trace(root.spanContext().traceId)).toEqual([]);
  });

  it('keeps spans in this process, or forwards them to the process that keeps them', async () => {
    const here = openTracing({ enabled: true, keep: 100, clock, log: silentLogger });
    const own = startSpan(here.tracer('scheduler'), 'a');
    own.end();
    expect(here.store.trace(own.spanContext().traceId)).toMatchObject([{ name: 'a', scope: 'scheduler' }]);
    const forwarded: RecordedSpan[] = [];
    const there = openTracing({
      enabled: true,
      keep: 100,
      clock,
      log: silentLogger,
      forward: async (spans) => {
        forwarded.push(...spans);
      },
    });
    const sent = startSpan(there.tracer('kubelet'), 'b');
    sent.end();
    expect(there.store.trace(sent.spanContext().traceId)).toEqual([]);
    await there.flush();
    expect(forwarded).toMatchObject([{ name: 'b', scope: 'kubelet' }]);
  });
});
