import { configMaps, secrets } from '@oarlock/api/resources';
import { conflict, failure, objectModified } from '@oarlock/api/status';
import { splitKey } from '@oarlock/api/object';
import { ControllerRunner } from '@oarlock/controllers/manager/controller-runner';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import { watch, type Controller } from '@oarlock/spi/controller';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { stalledClient } from '@oarlock/testing/stalled-client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { TraceFlags, type Link, type Span, type SpanContext, type SpanOptions, type Tracer, trace, type Context } from '@opentelemetry/api';
import { Registry } from 'prom-client';
import { beforeEach, describe, expect, it } from 'vitest';

interface Recorded {
  name: string;
  parent: SpanContext | undefined;
  links: readonly Link[];
  attributes: Record<string, unknown>;
  context: SpanContext;
  failed: string | undefined;
  ended: boolean;
}

/** A tracer that records spans. */
function recordingTracer(): { tracer: Tracer; spans: Recorded[] } {
  const spans: Recorded[] = [];
  const startSpan = (name: string, options: SpanOptions = {}, context?: Context): Span => {
    const record: Recorded = {
      name,
      parent: context && trace.getSpanContext(context),
      links: options.links ?? [],
      attributes: { ...options.attributes },
      failed: undefined,
      ended: false,
      context: {
        traceId: '0af7651916cd43dd8448eb211c80319c',
        spanId: (spans.length + 0x100).toString(16).padStart(16, '0'),
        traceFlags: TraceFlags.SAMPLED,
      },
    };
    spans.push(record);
    return {
      spanContext: () => record.context,
      end: () => {
        record.ended = true;
      },
      setStatus({ message }: { message?: string }) {
        record.failed = message ?? '';
        return this;
      },
    } as unknown as Span;
  };
  return { tracer: { startSpan } as Tracer, spans };
}

const at = (name: string) => ({ namespace: 'd', name });
const spanContext = (n: number): SpanContext => ({
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: n.toString(16).padStart(16, '0'),
  traceFlags: 1,
});

describe('ControllerRunner', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  let abort: AbortController;
  let metrics: Registry;
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    abort = new AbortController();
    metrics = new Registry();
  });

  /** A controller that maintains a Secret for every ConfigMap. */
  const mirror = (reconcile?: Controller['reconcile']): Controller => {
    const maps = api.informers.forResource(configMaps);
    const copies = api.informers.forResource(secrets);
    const keyOf = (o: { metadata?: { namespace?: string; name?: string } }) => [`${o.metadata?.namespace}/${o.metadata?.name}`];
    return {
      name: 'mirror',
      watches: [watch(maps, keyOf), watch(copies, keyOf)],
      reconcile:
        reconcile ??
        (async (key, { client }) => {
          if (maps.get(key) !== undefined && copies.get(key) === undefined) await client.create(secrets, { metadata: splitKey(key) });
          if (maps.get(key) === undefined && copies.get(key) !== undefined) await client.delete(secrets, splitKey(key) as { name: string });
        }),
    };
  };
  const run = (
    controller: Controller,
    { tracer = noTracer, log = silentLogger, workers }: { tracer?: Tracer; log?: Logger; workers?: number } = {},
  ) =>
    new ControllerRunner({ controller, client: api.client(), clock, log, tracer, metrics, ...(workers && { workers }) }).run(abort.signal);

  it('after another leader starts with the writes of that leader in its cache', async () => {
    const { client, stallWatches: deafen } = stalledClient(api.client());
    const informers = new SharedInformerFactory({ client, clock, random: () => 0.5 });
    const copies = informers.forResource(secrets);
    const twins: Controller = {
      name: 'twins',
      watches: [watch(informers.forResource(configMaps), ({ metadata }) => [`d/${metadata?.name}`]), watch(copies, () => [])],
      async reconcile(_key, context) {
        const missing = Math.max(0, 2 - copies.list().length);
        for (let i = 0; i < missing; i++) await context.client.create(secrets, { metadata: { namespace: 'd', generateName: 'twin-' } });
      },
    };
    const runner = new ControllerRunner({ controller: twins, client: api.client(), clock, log: silentLogger, tracer: noTracer, metrics });
    informers.start();
    api.seed(configMaps, { metadata: at('one') });
    await informers.whenSynced();
    deafen();
    for (const name of ['a', 'b']) await api.client().create(secrets, { metadata: at(name) });
    const done = runner.run(abort.signal, true);
    await clock.settle();
    expect(api.objects(secrets).map(({ metadata }) => metadata?.name)).toEqual(['a', 'b']);
    abort.abort();
    await done;
    await informers.stop();
  });

  it('reconciles existing and new objects until it is stopped', async () => {
    api.seed(configMaps, { metadata: at('old') });
    const done = run(mirror());
    await clock.settle();
    expect(api.object(secrets, at('old'))).toBeDefined();
    await api.client().create(configMaps, { metadata: at('new') });
    await clock.settle();
    expect(api.object(secrets, at('new'))).toBeDefined();
    await api.client().delete(configMaps, at('old'));
    await clock.settle();
    expect(api.object(secrets, at('old'))).toBeUndefined();
    abort.abort();
    await done;
    await api.client().create(configMaps, { metadata: at('late') });
    await clock.settle();
    expect(api.object(secrets, at('late'))).toBeUndefined();
  });

  it('creates a span for each reconcile below the write that triggered it, and parents its writes to it', async () => {
    const { tracer, spans } = recordingTracer();
    void run(mirror(), { tracer });
    await clock.settle();
    await clock.advance(1000);
    await api
      .client()
      .withSpanContext(spanContext(1))
      .create(configMaps, { metadata: at('a') });
    await clock.settle();
    expect(spans[0]).toMatchObject({
      name: 'reconcile mirror',
      parent: spanContext(1),
      ended: true,
      failed: undefined,
      attributes: { 'oarlock.key': 'd/a', 'oarlock.enqueued_at': clock.now() },
    });
    const write = api.requests.find(({ verb, resource }) => verb === 'create' && resource === secrets);
    expect(write?.spanContext).toEqual(spans[0]?.context);
    expect(spans[1]?.parent).toEqual(spans[0]?.context);
    abort.abort();
  });

  it('links further span contexts that arrive during a reconcile', async () => {
    const { tracer, spans } = recordingTracer();
    let release: () => void = () => undefined;
    let gate: Promise<void> | undefined = new Promise((resolve) => {
      release = resolve;
    });
    void run(
      mirror(async () => {
        await gate;
      }),
      { tracer },
    );
    const write = (n: number) =>
      api
        .client()
        .withSpanContext(spanContext(n))
        .patch(configMaps, at('a'), 'merge', { data: { n: String(n) } });
    await api.client().create(configMaps, { metadata: at('a') });
    await clock.settle();
    await write(1);
    await write(2);
    await write(3);
    await clock.settle();
    expect(spans).toHaveLength(1);
    gate = undefined;
    release();
    await clock.settle();
    expect(spans).toHaveLength(2);
    expect(spans[1]).toMatchObject({ parent: spanContext(1), links: [{ context: spanContext(2) }, { context: spanContext(3) }] });
    abort.abort();
  });

  it('retries failures with backoff and their span context, logs conflicts only for debugging, and passes the number of failures', async () => {
    const { tracer, spans } = recordingTracer();
    const warned: unknown[] = [];
    const log: Logger = { ...silentLogger, warn: (fields) => warned.push(fields), child: () => log };
    const tries: [number, number][] = [];
    const outcomes = [failure('InternalError', 'one'), conflict(secrets, 'a', objectModified), new Error('three'), undefined];
    void run(
      mirror(async (_key, { failures }) => {
        tries.push([clock.monotonic(), failures]);
        const outcome = outcomes.shift();
        if (outcome !== undefined) throw outcome;
      }),
      { tracer, log },
    );
    await clock.settle();
    await api
      .client()
      .withSpanContext(spanContext(1))
      .create(configMaps, { metadata: at('a') });
    await clock.advance(1000);
    expect(tries).toEqual([
      [0, 0],
      [5, 1],
      [15, 2],
      [35, 3],
    ]);
    expect(spans.map(({ failed }) => failed)).toEqual(['one', undefined, 'three', undefined]);
    expect(spans.map(({ parent }) => parent)).toEqual(Array.from({ length: 4 }, () => spanContext(1)));
    expect(warned).toHaveLength(2);
    const text = await metrics.metrics();
    expect(text).toContain('oarlock_reconcile_total{controller="mirror",result="conflict"} 1');
    expect(text).toContain('oarlock_reconcile_total{controller="mirror",result="error"} 2');
    expect(text).toContain('workqueue_retries_total{name="mirror"} 3');
    abort.abort();
  });

  it('requeues after the requested delay unless an event enqueues the key before', async () => {
    const times: number[] = [];
    void run(
      mirror(async () => {
        times.push(clock.monotonic());
        return { requeueAfterMs: 1000 };
      }),
    );
    await api.client().create(configMaps, { metadata: at('a') });
    await clock.advance(1500);
    await api.client().patch(configMaps, at('a'), 'merge', { data: { x: 'y' } });
    await clock.advance(1400);
    expect(times).toEqual([0, 1000, 1500, 2500]);
    abort.abort();
  });

  it('reconciles as many keys concurrently as it has workers, and no key twice', async () => {
    api.seed(configMaps, ...Array.from({ length: 9 }, (_, n) => ({ metadata: at(`c${n}`) })));
    const now = new Set<string>();
    let most = 0;
    const controller = mirror(async (key) => {
      expect(now.has(key)).toBe(false);
      now.add(key);
      most = Math.max(most, now.size);
      await clock.sleep(10);
      now.delete(key);
    });
    void run(controller, { workers: 3 });
    await clock.advance(1000);
    expect(most).toBe(3);
    expect(now.size).toBe(0);
    abort.abort();
  });

  it('yields to the event loop with many keys', async () => {
    const busy = () => {
      const until = performance.now() + 0.2;
      while (performance.now() < until);
    };
    let count = 0;
    void run(
      mirror(async () => {
        busy();
        count += 1;
      }),
    );
    await clock.settle();
    api.seed(configMaps, ...Array.from({ length: 1000 }, (_, n) => ({ metadata: at(`c${n}`) })));
    let turns = 0;
    for (; count < 1000; turns += 1)
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
    expect(turns).toBeGreaterThan(30); // 200 ms of work in slices of 5 ms
    abort.abort();
  });

  it('waits for its informers on start and for reconciles in flight on stop', async () => {
    api.failNext({ verb: 'watch', resource: secrets }, failure('ServiceUnavailable', 'down'));
    api.failNext({ verb: 'list', resource: secrets }, failure('ServiceUnavailable', 'down'));
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const log: string[] = [];
    const done = run(
      mirror(async () => {
        log.push('began');
        await gate;
        log.push('ended');
      }),
    ).then(() => log.push('stopped'));
    api.seed(configMaps, { metadata: at('a') });
    await clock.settle();
    expect(log).toEqual([]);
    await clock.advance(2000);
    expect(log).toEqual(['began']);
    abort.abort();
    await clock.settle();
    release();
    await done;
    expect(log).toEqual(['began', 'ended', 'stopped']);
  });
});
