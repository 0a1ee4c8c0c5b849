import { trace, type Span, type SpanOptions, type Tracer } from '@opentelemetry/api';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn, authenticated } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Loopback } from '@oarlock/spi/loopback';
import { Roles } from '@oarlock/spi/role';
import { Storage } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { request } from 'node:https';
import { expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiServer } from '../../src/server/api-server.ts';
import apiserver from '../../src/plugin.ts';
import { testKeys } from '../support/keys.ts';

interface Seen {
  readonly name: string;
  readonly id: string;
  readonly parent: string | undefined;
  readonly start: unknown;
  end: unknown;
}

function recorder(): { readonly tracer: Tracer; readonly spans: Seen[] } {
  const spans: Seen[] = [];
  const tracer = {
    startSpan(name: string, options: SpanOptions = {}, context) {
      const parent = context && trace.getSpanContext(context);
      const seen: Seen = {
        name,
        id: (spans.length + 1).toString(16).padStart(16, '0'),
        parent: parent?.spanId,
        start: options.startTime,
        end: undefined,
      };
      spans.push(seen);
      const span: Partial<Span> = {
        spanContext: () => ({ traceId: parent?.traceId ?? '1'.repeat(32), spanId: seen.id, traceFlags: 1 }),
        isRecording: () => true,
        setAttribute: () => span as Span,
        setAttributes: () => span as Span,
        setStatus: () => span as Span,
        end: (time) => {
          seen.end = time ?? 'now';
        },
      };
      return span as Span;
    },
  } as Tracer;
  return { tracer, spans };
}

it('records authentication first in the trace of an HTTP write, and passes the span context to the watch event', async () => {
  const keys = await testKeys();
  const { tracer, spans } = recorder();
  const host = new PluginHost({ tracer: () => tracer });
  host
    .provide(Cluster, {
      name: 'test',
      domain: 'cluster.local',
      podCIDRs: [],
      serviceCIDRs: ['10.96.0.0/16'],
      kubernetesServiceIP: '10.96.0.1',
      dnsServiceIP: '10.96.0.10',
      serverUrl: 'https://127.0.0.1:6443',
      nodePortRange: { from: 30_000, to: 32_767 },
      version: 'v1.36.0',
    })
    .provide(Keys, keys)
    .provide(Loopback, { connect: () => undefined });
  const nothing = z.strictObject({});
  host.add({ plugin: Storage.plugin({ id: 'storage-test', config: nothing, create: (_, { clock }) => new MemoryStorage({ clock }) }) });
  host.add({
    plugin: Authn.plugin({
      id: 'authn-test',
      config: nothing,
      create: () => ({ authenticate: () => authenticated({ name: 'me', groups: [] }) }),
    }),
  });
  host.add({
    plugin: Authz.plugin({
      id: 'authz-test',
      config: nothing,
      create: () => ({ authorize: () => ({ decision: 'allow', reason: 'test' }) }),
    }),
  });
  host.add({ plugin: apiserver, config: { listen: { port: 0 } } });
  await host.start();
  try {
    const { port } = (host.get(Roles)[0] as ApiServer).address;
    spans.length = 0;
    const began = Date.now();
    const body = JSON.stringify({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a' } });
    const code = await new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
      request(
        {
          host: '127.0.0.1',
          port,
          method: 'POST',
          path: '/api/v1/namespaces/default/configmaps',
          ca: keys.caBundle,
          agent: false,
          headers,
        },
        (response) => {
          response.resume().on('end', () => {
            resolve(response.statusCode);
          });
        },
      )
        .on('error', reject)
        .end(body);
    });
    expect(code).toBe(201);
    const [root, first] = spans;
    expect(root).toMatchObject({ name: 'create configmaps', parent: 'b'.repeat(16) });
    expect(first).toMatchObject({ name: 'authentication', parent: root?.id, start: root?.start });
    expect(Number(first?.start)).toBeGreaterThanOrEqual(began);
    expect(Number(first?.end)).toBeGreaterThanOrEqual(Number(first?.start));
    expect(spans.filter(({ parent }) => parent === root?.id).map(({ name }) => name)).toEqual([
      'authentication',
      'authorization',
      'validation',
      'storage write',
    ]);
    expect(spans.every(({ end }) => end !== undefined)).toBe(true);
  } finally {
    await host.stop();
  }
});
