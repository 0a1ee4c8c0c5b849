import type { Attributes as SpanAttributes, Span, SpanContext, SpanOptions, Tracer } from '@opentelemetry/api';
import { trace } from '@opentelemetry/api';
import { afterEach, describe, expect, it } from 'vitest';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import { allow, type AdmissionPlugin } from '@oarlock/spi/admission';
import { configMap, rejectionOf, TestServer, type ServerOptions } from '../support/pipeline-fixture.ts';

let server: TestServer;
const start = async (options: ServerOptions = {}) => {
  server = await TestServer.start(options);
  return server;
};
afterEach(() => server.stop());

const plugin = (
  resources: readonly string[],
  operations: AdmissionPlugin['matches'][number]['operations'],
  rest: Omit<AdmissionPlugin, 'matches'>,
): AdmissionPlugin => ({ matches: [{ resources, operations }], ...rest });

describe('traces', () => {
  interface Seen {
    readonly name: string;
    readonly parent: string | undefined;
    attributes: SpanAttributes;
    readonly context: SpanContext;
    status?: number;
    ended: boolean;
  }
  function recorder(): { readonly tracer: Tracer; readonly spans: Seen[] } {
    const spans: Seen[] = [];
    const tracer = {
      startSpan(name: string, options: SpanOptions = {}, context) {
        const parent = context && trace.getSpanContext(context);
        const seen: Seen = {
          name,
          parent: spans.find((span) => span.context.spanId === parent?.spanId)?.name ?? parent?.spanId,
          attributes: { ...options.attributes },
          ended: false,
          context: { traceId: parent?.traceId ?? '1'.repeat(32), spanId: (spans.length + 1).toString(16).padStart(16, '0'), traceFlags: 1 },
        };
        spans.push(seen);
        const span: Partial<Span> = {
          spanContext: () => seen.context,
          isRecording: () => true,
          end: () => {
            seen.ended = true;
          },
          setAttribute(key, value) {
            seen.attributes[key] = value;
            return span as Span;
          },
          setAttributes(more) {
            Object.assign(seen.attributes, more);
            return span as Span;
          },
          setStatus({ code }) {
            seen.status = code;
            return span as Span;
          },
        };
        return span as Span;
      },
    } as Tracer;
    return { tracer, spans };
  }

  it('record the stages of a write', async () => {
    const { tracer, spans } = recorder();
    await start({
      tracer,
      names: { authz: ['authz-test'], admission: ['admission-label'] },
      admission: [
        plugin(['configmaps'], ['CREATE'], {
          mutate: ({ object }) => ({ ...object, ...{ data: { x: 'y' } }, metadata: { ...object?.metadata, labels: { 'a.b/c': 'd' } } }),
          validate: () => allow,
        }),
      ],
    });
    await server.create('configmaps', configMap('a'));
    expect(spans.map(({ name, parent }) => [name, parent])).toEqual([
      ['create configmaps', undefined],
      ['authorization', 'create configmaps'],
      ['admission admission-label', 'create configmaps'],
      ['validation', 'create configmaps'],
      ['admission admission-label', 'create configmaps'],
      ['storage write', 'create configmaps'],
    ]);
    expect(spans[0]?.attributes).toEqual({
      'oarlock.verb': 'create',
      'oarlock.user': 'admin',
      'oarlock.object': 'configmaps/default/a',
      'oarlock.revision': 1,
      'http.response.status_code': 201,
    });
    expect(spans[1]?.attributes).toEqual({ 'oarlock.decision': 'allow', 'oarlock.plugin': 'authz-test' });
    expect(spans[2]?.attributes).toEqual({
      'oarlock.phase': 'mutate',
      'oarlock.added': ['metadata.labels', 'data'],
    });
    expect(spans[5]?.attributes).toEqual({ 'oarlock.revision': 1 });
    expect(spans.every(({ ended }) => ended)).toBe(true);
  });

  it('record values before the changes of admission plugins, but none of confidential objects', async () => {
    const { tracer, spans } = recorder();
    await start({
      tracer,
      names: { admission: ['admission-change'] },
      admission: [plugin(['*'], ['CREATE'], { mutate: ({ object }) => ({ ...object, ...{ data: { x: 'eg==' } } }) })],
    });
    await server.create('configmaps', configMap('a', { x: 'before', y: 'removed' }));
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace: 'default' }, data: { x: 'YmVmb3Jl' } };
    await server.create('secrets', secret);
    const admissions = spans.filter(
      ({ name, attributes }) => name === 'admission admission-change' && attributes['oarlock.phase'] === 'mutate',
    );
    expect(admissions.map(({ attributes }) => attributes)).toEqual([
      {
        'oarlock.phase': 'mutate',
        'oarlock.changed': ['data.x'],
        'oarlock.removed': ['data.y'],
        'oarlock.before': '{"data.x":"\\"before\\"","data.y":"\\"removed\\""}',
      },
      { 'oarlock.phase': 'mutate' },
    ]);
  });

  it("record reads only as part of a client's trace", async () => {
    const { tracer, spans } = recorder();
    await start({ tracer });
    await server.list('configmaps');
    expect(spans).toEqual([]);
    await server.list(
      'configmaps',
      {},
      { spanContext: { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1, isRemote: true } },
    );
    expect(spans[0]).toMatchObject({ name: 'list configmaps', parent: 'b'.repeat(16), context: { traceId: 'a'.repeat(32) } });
  });

  it("record the creation of a Lease, and its renewals only as part of a client's trace", async () => {
    const { tracer, spans } = recorder();
    await start({ tracer });
    const leases = 'leases.coordination.k8s.io';
    const spec = { holderIdentity: 'x', leaseDurationSeconds: 40, renewTime: '2026-01-01T00:00:00.000000Z' };
    const metadata = { name: 'a', namespace: 'default' };
    const created = await server.create<Lease>(leases, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec } as Lease);
    const renewed = (from: Lease, second: number): Lease => ({
      ...from,
      spec: { ...spec, renewTime: `2026-01-01T00:00:${second}.000000Z` },
    });
    await server.update(leases, renewed(created, 10));
    const patched = await server.patch<Lease>(leases, 'a', { spec: { renewTime: '2026-01-01T00:00:20.000000Z' } });
    const writes = () => spans.filter(({ parent }) => parent === undefined || parent === 'b'.repeat(16)).map(({ name }) => name);
    expect(writes()).toEqual(['create leases.coordination.k8s.io']);
    const spanContext = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1, isRemote: true };
    await server.update(leases, renewed(patched, 30), { spanContext });
    expect(writes()).toEqual(['create leases.coordination.k8s.io', 'update leases.coordination.k8s.io']);
  });

  it('pass the span context of a write to its watch event', async () => {
    const { tracer, spans } = recorder();
    await start({ tracer });
    const watching = await server.watch('configmaps');
    await server.create('configmaps', configMap('a'));
    expect((await watching.next())?.spanContext).toEqual(spans[0]?.context);
    const late = await server.watch('configmaps');
    expect((await late.next())?.spanContext).toEqual(spans[0]?.context);
    await server.remove('configmaps', 'a');
    expect((await watching.next())?.spanContext).toEqual(spans.find(({ name }) => name === 'delete configmaps')?.context);
  });

  it("pass a client's span context on without a recorder", async () => {
    await start();
    const spanContext = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 };
    const watching = await server.watch('configmaps');
    await server.create('configmaps', configMap('a'), { spanContext });
    expect((await watching.next())?.spanContext).toMatchObject(spanContext);
    await server.create('configmaps', configMap('b'));
    expect((await watching.next())?.spanContext).toBeUndefined();
  });

  it('record errors', async () => {
    const { tracer, spans } = recorder();
    await start({ tracer });
    await rejectionOf(server.create('configmaps', configMap('B')));
    expect(spans[0]).toMatchObject({ status: 2, attributes: { 'http.response.status_code': 422 } });
  });
});
