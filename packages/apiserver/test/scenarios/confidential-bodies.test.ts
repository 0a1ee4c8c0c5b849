import { trace, type Span, type Tracer } from '@opentelemetry/api';
import { afterEach, describe, expect, it } from 'vitest';
import type { AuditEvent } from '@oarlock/spi/audit';
import { AuditTrail } from '../../src/audit/audit-trail.ts';
import { rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

const marker = 'cGxhbnRlZC1tYXJrZXI=';
let server: TestServer;
afterEach(() => server.stop());

/** Records all values that are written to spans. */
function recorder(): { readonly tracer: Tracer; readonly text: () => string } {
  const records: unknown[] = [];
  const span = {
    spanContext: () => ({ traceId: '1'.repeat(32), spanId: '1'.repeat(16), traceFlags: 1 }),
    isRecording: () => true,
    end: () => undefined,
    addEvent: (...all: unknown[]) => (records.push(all), span),
    recordException: (error: unknown) => void records.push(String(error)),
    setAttribute: (...all: unknown[]) => (records.push(all), span),
    setAttributes: (...all: unknown[]) => (records.push(all), span),
    setStatus: (...all: unknown[]) => (records.push(all), span),
    updateName: (...all: unknown[]) => (records.push(all), span),
  } as unknown as Span;
  const tracer = {
    startSpan: (...all: unknown[]) => {
      records.push(all.slice(0, 2));
      return span;
    },
    startActiveSpan: () => trace.getTracer('none'),
  } as unknown as Tracer;
  return { tracer, text: () => JSON.stringify(records) };
}

const secret = { kind: 'Secret', apiVersion: 'v1', metadata: { name: 's' }, ...{ data: { password: marker } } };

describe('spans of rejected writes of Secrets', () => {
  it.each([
    ['a patch to invalid data', { data: { other: `${marker}!` } }, 'merge'],
    ['a patch to another type', { data: 7 }, 'merge'],
    ['a patch whose test fails', [{ op: 'test', path: '/data/password', value: `x${marker}` }], 'json'],
    ['a patch of a path that is missing', [{ op: 'replace', path: `/data/${marker}/x`, value: marker }], 'json'],
    ['a patch of an immutable field', { type: marker }, 'strategic'],
    ['a patch to another shape', { stringData: [marker] }, 'strategic'],
  ] as const)('%s: contain no value of the object', async (_, patch, patchType) => {
    const { tracer, text } = recorder();
    server = await TestServer.start({ tracer });
    await server.create('secrets', secret);
    await expect(server.patch('secrets', 's', patch as never, { patchType } as never)).rejects.toThrow();
    expect(text()).toContain('patch secrets');
    expect(text()).not.toContain(marker);
  });

  it('a failed patch does not quote the stored object to the caller', async () => {
    server = await TestServer.start();
    await server.create('secrets', secret);
    const { status } = await rejectionOf(server.patch('secrets', 's', { data: 7 }));
    expect(JSON.stringify(status)).not.toContain(marker);
  });
});

describe('audit events of level Metadata', () => {
  const failed = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: marker,
    reason: 'Invalid',
    details: { causes: [{ message: marker }] },
    code: 422,
  } as const;
  const eventOf = (group: string, resource: string, subresource: string, end: (trail: AuditTrail) => void): AuditEvent | undefined => {
    const events: AuditEvent[] = [];
    const subject = { auditID: 'a', requestURI: '/x', userAgent: undefined, sourceIPs: [], receivedAt: 0 };
    const attributes = {
      kind: 'resource',
      identity: { name: 'u', groups: [] },
      verb: 'patch',
      version: 'v1',
      namespace: 'a',
      name: 's',
    } as const;
    const scope = { level: 'Metadata', omitStages: new Set<never>(), omitManagedFields: false } as const;
    const record = (event: AuditEvent): undefined => void events.push(event);
    const trail = new AuditTrail(subject, { ...attributes, group, resource, subresource }, { scope, record, now: () => 0 });
    trail.setRequestObject({ kind: 'Secret', data: { password: marker } });
    end(trail);
    trail.recordResponseComplete(422);
    return events.at(-1);
  };

  it.each([
    ['', 'secrets', ''],
    ['authentication.k8s.io', 'tokenreviews', ''],
    ['', 'serviceaccounts', 'token'],
  ])('%s %s %s: keep the reason of an error without its message', (group, resource, subresource) => {
    const rejected = eventOf(group, resource, subresource, (trail) => trail.recordRejection(failed));
    expect(rejected?.responseStatus).toEqual({ metadata: {}, status: 'Failure', reason: 'Invalid', code: 422 });
    const panicked = eventOf(group, resource, subresource, (trail) => trail.recordPanic(new Error(marker)));
    for (const event of [rejected, panicked]) expect(JSON.stringify(event)).not.toContain(marker);
  });

  it('keep the message of other resources', () => {
    expect(eventOf('', 'configmaps', '', (trail) => trail.recordRejection(failed))?.responseStatus).toMatchObject({ message: marker });
  });
});
