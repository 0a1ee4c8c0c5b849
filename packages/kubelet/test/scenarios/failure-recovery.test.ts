import { failure } from '@oarlock/api/status';
import { nodes, pods } from '@oarlock/api/resources';
import { spanContextOf, parseTraceparent } from '@oarlock/kernel/tracing';
import { RuntimeError, type RuntimeDriver } from '@oarlock/spi/runtime';
import type { Attributes, Span, SpanContext, Tracer } from '@opentelemetry/api';
import { trace } from '@opentelemetry/api';
import { afterEach, describe, expect, it } from 'vitest';
import { app, Bench, container, isReady, podOf } from '../support/bench.ts';

/** A tracer that records spans: name, parent and attributes. */
class Recorder implements Pick<Tracer, 'startSpan'> {
  readonly spans: { name: string; parent: string | undefined; id: string; attributes: Attributes; failed: boolean; ended: boolean }[] = [];
  startSpan: Tracer['startSpan'] = (name, options, context) => {
    const parent = context && trace.getSpanContext(context);
    const id = (this.spans.length + 1).toString(16).padStart(16, '0');
    const record = { name, parent: parent?.spanId, id, attributes: options?.attributes ?? {}, failed: false, ended: false };
    this.spans.push(record);
    const own: SpanContext = { traceId: parent?.traceId ?? 'f'.repeat(32), spanId: id, traceFlags: 1 };
    const span = {
      spanContext: () => own,
      end: () => {
        record.ended = true;
      },
      setStatus: () => {
        record.failed = true;
        return span;
      },
      setAttribute: () => span,
      setAttributes: () => span,
      addEvent: () => span,
      addLink: () => span,
      addLinks: () => span,
      updateName: () => span,
      isRecording: () => true,
      recordException: () => undefined,
    } as unknown as Span;
    return span;
  };
  children(id: string) {
    return this.spans.filter(({ parent }) => parent === id).map(({ name }) => name);
  }
}

describe('kubelet failure recovery', () => {
  let bench: Bench;
  afterEach(() => bench.dispose());

  it('retries a status patch until the API server accepts it, with the newest status only', async () => {
    bench = await new Bench().start();
    bench.api.failNext({ verb: 'patch', resource: pods, subresource: 'status' }, failure('ServiceUnavailable', 'not now'), 3);
    bench.create(podOf('web'));
    await bench.ready('web');
    expect(bench.requests('patch', 'pods', 'status')).toBe(4);
  });

  it('does not touch a later pod of the same name', async () => {
    bench = await new Bench().start();
    bench.create(podOf('web', {}, { 'simulated.oarlock.dev/start-delay': '10s' }));
    await bench.clock.advance(5000);
    bench.api.remove(pods, { namespace: 'default', name: 'web' });
    const { nodeName: _, ...spec } = podOf('web').spec ?? { containers: [] };
    bench.create({ ...podOf('web'), spec });
    await bench.clock.advance(60_000);
    expect(bench.pod('web')?.status).toEqual({ phase: 'Pending', qosClass: 'BestEffort' });
    expect(await bench.runtime.listPodSandbox()).toEqual([]);
  });

  it('does not abort the start of a container whose pod is deleted meanwhile', async () => {
    bench = await new Bench().start();
    const { metadata, ...web } = podOf('web', { restartPolicy: 'Never' }, { 'simulated.oarlock.dev/start-delay': '10s' });
    // the finalizer keeps the last status readable
    bench.create({ ...web, metadata: { ...metadata, finalizers: ['oarlock.dev/test'] } });
    await bench.until('web', () => bench.events.of('Created').length > 0);
    await bench.delete('web', 30);
    const ended = await bench.until('web', (pod) => pod?.status?.phase === 'Succeeded' || pod?.status?.phase === 'Failed');
    expect(bench.events.of('Started')).toHaveLength(1);
    expect(container(ended)?.state?.terminated).toMatchObject({ exitCode: 0, reason: 'Completed' });
  });

  it("reports the runtime's message of a failed creation or start without the gRPC prefix", async () => {
    const failsWith = (message: string) => () =>
      Promise.reject(new RuntimeError('Internal', `rpc error: code = Unknown desc = ${message}`, { runtimeMessage: message }));
    let method = 'createContainer';
    bench = await new Bench({
      wrap: (driver) =>
        new Proxy(driver, {
          get(target, key) {
            const value: unknown = Reflect.get(target, key);
            if (key === method) return failsWith(`no ${method}`);
            return typeof value === 'function' ? value.bind(target) : value;
          },
        }),
    }).start();
    const waiting = async (reason: string) => {
      const pod = await bench.until('web', (one) => container(one)?.state?.waiting?.reason === reason);
      return container(pod)?.state?.waiting?.message;
    };
    bench.create(podOf('web'));
    expect(await waiting('CreateContainerError')).toBe('no createContainer');
    method = 'startContainer';
    expect(await waiting('RunContainerError')).toBe('no startContainer');
    expect(bench.events.of('Failed')).toEqual([
      'web Warning Failed spec.containers{app}: Error: no createContainer',
      'web Warning Failed spec.containers{app}: Error: no startContainer',
    ]);
  });

  it('runs a pod beside a terminating pod of the same name', async () => {
    bench = await new Bench().start();
    bench.create(podOf('web', {}, { 'simulated.oarlock.dev/stop-delay': '5s' }));
    await bench.ready('web');
    bench.api.remove(pods, { namespace: 'default', name: 'web' });
    bench.create(podOf('web'));
    await bench.ready('web');
    expect((await bench.runtime.listPodSandbox({ state: 'READY' })).length).toBe(2);
    await bench.clock.advance(6000);
    expect((await bench.runtime.listPodSandbox()).length).toBe(1);
    expect(isReady(bench.pod('web'))).toBe(true);
  });

  it('loses nothing when its watches break or expire', async () => {
    bench = await new Bench().start();
    bench.create(podOf('a'));
    await bench.ready('a');
    bench.api.dropWatches();
    bench.api.compact();
    bench.create(podOf('b'));
    await bench.delete('a');
    await bench.ready('b');
    await bench.until('a', (pod) => pod === undefined);
  });

  it('reports a runtime that is down and continues when it is back', async () => {
    let down = false;
    bench = await new Bench({
      wrap: (driver) =>
        new Proxy(driver, {
          get(target, key) {
            const value: unknown = Reflect.get(target, key);
            if (typeof value !== 'function' || key === 'events') return typeof value === 'function' ? value.bind(target) : value;
            return (...args: unknown[]): unknown =>
              down ? Promise.reject(new RuntimeError('Unavailable', 'connection refused')) : value.apply(target, args);
          },
        }),
    }).start();
    down = true;
    await bench.clock.advance(11_000);
    const ready = () => bench.api.object(nodes, { name: 'node-a' })?.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready()).toMatchObject({ status: 'False', reason: 'KubeletNotReady', message: 'container runtime is down: connection refused' });
    bench.create(podOf('web'));
    await bench.clock.advance(30_000);
    expect(container(bench.pod('web'))?.state?.waiting?.reason).toBe('ContainerCreating');
    down = false;
    await bench.ready('web');
    expect(ready()).toMatchObject({ status: 'True' });
  });

  it('retries a sandbox that could not be created', async () => {
    let failing = 2;
    bench = await new Bench({
      wrap: (driver) =>
        new Proxy(driver, {
          get(target, key) {
            const value: unknown = Reflect.get(target, key);
            if (typeof value !== 'function') return value;
            return (...args: unknown[]): unknown =>
              key === 'runPodSandbox' && failing-- > 0
                ? Promise.reject(new RuntimeError('Internal', 'no space'))
                : value.apply(target, args);
          },
        }),
    }).start();
    bench.create(podOf('web'));
    await bench.ready('web');
    expect(bench.events.of('FailedCreatePodSandBox')).toEqual([
      'web Warning FailedCreatePodSandBox: Failed to create pod sandbox: no space',
      'web Warning FailedCreatePodSandBox: Failed to create pod sandbox: no space',
    ]);
  });

  it('finds changes by relisting if the runtime sent no event', async () => {
    bench = await new Bench({
      wrap: (driver) =>
        new Proxy(driver, {
          get: (target, key) => {
            if (key === 'events')
              return async function* silent(signal: AbortSignal) {
                yield 'resync';
                await new Promise((resolve) => {
                  signal.addEventListener('abort', resolve);
                });
              };
            const value: unknown = Reflect.get(target, key);
            return typeof value === 'function' ? (value.bind(target) as unknown) : value;
          },
        }),
    }).start();
    bench.create(podOf('web'));
    await bench.ready('web');
    const [running] = await bench.runtime.listContainers({ state: 'RUNNING' });
    bench.runtime.finish(running?.id ?? '', 5);
    const pod = await bench.until('web', (one) => container(one)?.restartCount === 1);
    expect(container(pod)?.lastState?.terminated?.exitCode).toBe(5);
  });

  it('replaces a sandbox that stops while the kubelet reads its status', async () => {
    let statusReads = 0;
    bench = await new Bench({
      wrap: (driver) =>
        new Proxy(driver, {
          get: (target, key) => {
            if (key === 'podSandboxStatus')
              return async (...args: Parameters<RuntimeDriver['podSandboxStatus']>) => {
                const status = await target.podSandboxStatus(...args);
                if (statusReads++ === 0) await target.stopPodSandbox(args[0]);
                return status;
              };
            const value: unknown = Reflect.get(target, key);
            return typeof value === 'function' ? (value.bind(target) as unknown) : value;
          },
        }),
    }).start();
    const from = bench.clock.now();
    bench.create(podOf('web'));
    await bench.ready('web');
    expect(bench.clock.now() - from).toBeLessThan(60_000);
  });

  it('records spans below the write that caused them', async () => {
    const recorder = new Recorder();
    bench = await new Bench({ tracer: recorder as unknown as Tracer }).start();
    const write = parseTraceparent(`00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`);
    const { nodeName: _, ...spec } = podOf('web').spec ?? { containers: [] };
    bench.create({ ...podOf('web'), spec: { ...spec, containers: [app({ readinessProbe: { exec: { command: ['true'] } } })] } });
    await bench.api
      .client()
      .withSpanContext(write)
      .create(pods, { apiVersion: 'v1', kind: 'Binding', target: { kind: 'Node', name: 'node-a' } } as never, {
        subresource: 'binding',
        name: { namespace: 'default', name: 'web' },
      });
    await bench.ready('web');
    const [first, second] = recorder.spans.filter(({ name }) => name === 'sync pod');
    expect(first).toMatchObject({
      parent: write?.spanId,
      attributes: { 'oarlock.key': 'default/web', 'oarlock.node': 'node-a', 'oarlock.enqueued_at': expect.any(Number) as number },
    });
    expect(recorder.children(first?.id ?? '')).toEqual([
      'RunPodSandbox',
      'PullImage',
      'CreateContainer',
      'StartContainer',
      'status update',
      'probe',
    ]);
    expect(recorder.children(write?.spanId ?? '')).toEqual(['sync pod']);
    const probe = recorder.spans.find(({ name }) => name === 'probe');
    expect(second?.parent).toBe(probe?.id);
    expect(recorder.children(second?.id ?? '')).toEqual(['status update']);
    expect(recorder.spans.filter(({ ended, failed }) => !ended || failed)).toEqual([]);
    expect(spanContextOf({ spanContext: () => write } as unknown as Span)).toEqual(write);
  });

  it('manages a thousand nodes with one status per pod and no timers for running pods', { timeout: 600_000 }, async () => {
    bench = await new Bench({ config: { count: 1000, nodeName: 'sim' } }).start();
    expect(bench.api.objects(nodes).length).toBe(1000);
    const timers = bench.clock.pending;
    bench.api.requests.length = 0;
    for (let index = 0; index < 2000; index += 1) bench.create(podOf(`p-${index}`, { nodeName: `sim-${index % 1000}` }));
    // no time passes, but it takes more turns of the event loop than one settle detects
    for (let round = 0; round < 1000 && !bench.api.objects(pods).every(isReady); round += 1) await bench.clock.settle();
    expect(bench.api.objects(pods).every(isReady)).toBe(true);
    expect(bench.requests('patch', 'pods', 'status')).toBe(2000);
    await bench.clock.advance(1000);
    expect(bench.clock.pending).toBeLessThanOrEqual(timers + 1);
    expect(bench.events.lines).toEqual([]);
    const seconds = new Map<number, number>();
    for (const { verb, resource, body } of bench.api.requests) {
      if (verb !== 'update' || resource.resource !== 'leases') continue;
      const second = Math.floor(Date.parse((body as { spec: { renewTime: string } }).spec.renewTime) / 1000);
      seconds.set(second, (seconds.get(second) ?? 0) + 1);
    }
    await bench.clock.advance(20_000);
    expect(Math.max(0, ...seconds.values())).toBeLessThan(300);
  });
});
