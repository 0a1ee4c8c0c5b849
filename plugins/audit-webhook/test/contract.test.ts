import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Audit, type AuditEvent } from '@oarlock/spi/audit';
import { auditContract, auditEvent } from '@oarlock/spi/audit/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, describe, expect, it } from 'vitest';
import { eventText } from '../src/event-list.ts';
import plugin from '../src/plugin.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

/** A service that keeps what it is sent. */
async function service() {
  const batches: (readonly AuditEvent[])[] = [];
  const tokens: (string | undefined)[] = [];
  const state = { gate: Promise.resolve(), refuse: 0, release: () => {} };
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      void state.gate.then(() => {
        const { kind, apiVersion, items } = JSON.parse(text) as { kind: string; apiVersion: string; items: AuditEvent[] };
        expect([kind, apiVersion]).toEqual(['EventList', 'audit.k8s.io/v1']);
        tokens.push(request.headers.authorization);
        if (state.refuse > 0) {
          state.refuse -= 1;
          response.statusCode = 503;
        } else batches.push(items);
        response.end('thank you');
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    state.release();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  undo.push(close);
  return { batches, tokens, state, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events` };
}

async function open(config: object = {}, clock = new FakeClock()) {
  const to = await service();
  const host = new PluginHost({ clock }).add({ plugin, config: { url: to.url, ...config } });
  await host.start();
  undo.push(() => host.stop());
  const [sink] = host.get(Audit);
  if (sink === undefined) throw new Error('not created');
  const counted = async (name: string) => (await host.plugins[0]?.metrics.getSingleMetric(name)?.get())?.values[0]?.value ?? 0;
  const dropped = async () => {
    const count = await counted('audit_webhook_dropped_total');
    expect(await counted('apiserver_audit_error_total')).toBe(count);
    return count;
  };
  return { ...to, sink, host, clock, dropped };
}

it('integers of 64 bits are sent with all their digits', () => {
  const event = { ...auditEvent(1), requestObject: { spec: { size: 9_007_199_254_740_993n } } as never };
  expect(eventText(event, 10_000)).toContain('"requestObject":{"spec":{"size":9007199254740993}}');
});

auditContract('audit-webhook', async () => {
  const { sink, host, batches, dropped, state, clock } = await open({
    bufferSize: 500,
    maxBatchSize: 100,
    maxBatchWaitSeconds: 0,
    throttle: null,
  });
  let recorded = 0;
  return {
    sink: {
      record(event) {
        recorded += 1;
        return sink.record(event);
      },
    },
    capacity: 500,
    dropped,
    async storedEvents() {
      await expect
        .poll(
          async () => {
            await clock.advance(1);
            return batches.flat().length + (await dropped());
          },
          { timeout: 120_000 },
        )
        .toBe(recorded);
      return batches.flat();
    },
    stop: () => host.stop(),
    stall: () => {
      state.gate = new Promise((resolve) => {
        state.release = resolve;
      });
    },
    resume: () => state.release(),
  };
});

describe('batches', () => {
  it('are sent when they are full, or when the first has waited', async () => {
    const { sink, batches, clock } = await open({ maxBatchSize: 3, maxBatchWaitSeconds: 30 });
    for (let id = 0; id < 4; id++) sink.record(auditEvent(id));
    await expect.poll(() => batches.length).toBe(1);
    expect(batches[0]).toHaveLength(3);
    await expect.poll(() => clock.advance(30_000).then(() => batches.length)).toBe(2);
    expect(batches[1]).toEqual([auditEvent(3)]);
  });

  it('come no faster than they may', async () => {
    const { sink, batches, clock } = await open({ maxBatchSize: 1, throttle: { qps: 1, burst: 2 } });
    for (let id = 0; id < 4; id++) sink.record(auditEvent(id));
    await expect.poll(() => batches.length).toBe(2);
    await clock.advance(999);
    expect(batches).toHaveLength(2);
    await expect.poll(() => clock.advance(1).then(() => batches.length)).toBe(3);
    await expect.poll(() => clock.advance(1000).then(() => batches.length)).toBe(4);
  });

  it('are sent again when the service fails, and given up after five times', async () => {
    const { sink, batches, state, dropped, clock } = await open({ maxBatchSize: 1 });
    state.refuse = 2;
    sink.record(auditEvent(1));
    await expect.poll(() => clock.advance(10_000).then(() => batches.length)).toBe(1);
    expect(await dropped()).toBe(0);
    state.refuse = 5;
    sink.record(auditEvent(2));
    await expect.poll(() => clock.advance(100_000).then(dropped)).toBe(1);
    sink.record(auditEvent(3));
    await expect.poll(() => clock.advance(10_000).then(() => batches.length)).toBe(2);
  });
});

it('sends long events without their objects', async () => {
  const { sink, batches, host, dropped } = await open({ maxEventBytes: 2000 });
  const long = 'x'.repeat(3000);
  sink.record(auditEvent(1, { level: 'RequestResponse', requestObject: { long }, responseObject: { long } }));
  sink.record(auditEvent(2, { annotations: { long } }));
  await host.stop();
  expect(batches.flat()).toHaveLength(1);
  expect(batches.flat()[0]).not.toHaveProperty('requestObject');
  expect(batches.flat()[0]?.annotations).toEqual({ 'authorization.k8s.io/decision': 'allow', 'audit.k8s.io/truncated': 'true' });
  expect(await dropped()).toBe(1);
});

it('blocking: requests wait; strict: they fail with their first event', async () => {
  const { sink, batches, state, dropped } = await open({ mode: 'blocking' });
  await sink.record(auditEvent(1));
  expect(batches).toEqual([[auditEvent(1)]]);
  state.refuse = 1;
  await sink.record(auditEvent(2));
  expect(await dropped()).toBe(1);
  const strict = await open({ mode: 'blocking-strict' });
  strict.state.refuse = 1;
  await expect(strict.sink.record(auditEvent(3))).rejects.toThrow('returned status 503');
});

it('takes a kubeconfig, as upstream does', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'audit-webhook-'));
  undo.push(() => rm(folder, { recursive: true, force: true }));
  const { url, batches, tokens } = await service();
  const kubeconfigFile = join(folder, 'webhook.yaml');
  await writeFile(
    kubeconfigFile,
    JSON.stringify({
      clusters: [{ name: 'audit', cluster: { server: url } }],
      users: [{ name: 'me', user: { token: 'secret' } }],
      contexts: [{ name: 'c', context: { cluster: 'audit', user: 'me' } }],
      'current-context': 'c',
    }),
  );
  const host = new PluginHost().add({ plugin, config: { kubeconfigFile, mode: 'blocking' } });
  await host.start();
  await host.get(Audit)[0]?.record(auditEvent(1));
  await host.stop();
  expect([batches.length, tokens]).toEqual([1, ['Bearer secret']]);
  const neither = new PluginHost().add({ plugin, config: {} }).check();
  expect(neither[0]?.message).toContain('exactly one of url and kubeconfigFile');
});
