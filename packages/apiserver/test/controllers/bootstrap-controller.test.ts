import { afterEach, describe, expect, it } from 'vitest';
import type { ConfigMap, Endpoints } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { StorageError, type StorageDriver } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { BootstrapController } from '../../src/controllers/bootstrap-controller.ts';
import { facts, TestClock, TestServer } from '../support/pipeline-fixture.ts';

const started: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

async function serve(
  address: string,
  clock = new TestClock(),
  storage: StorageDriver = new MemoryStorage({ clock }),
  log: Logger = silentLogger,
) {
  const server = await TestServer.start({ storage, clock });
  const bootstrap = new BootstrapController({ pipeline: server.pipeline, storage, facts, address, port: 6443, clock, log });
  started.push(server);
  return { server, bootstrap };
}

const addresses = async (server: TestServer) => {
  const { subsets } = await server.get<Endpoints>('endpoints', 'kubernetes');
  const slice = await server.get<EndpointSlice>('endpointslices.discovery.k8s.io', 'kubernetes');
  const ips = subsets?.[0]?.addresses?.map(({ ip }) => ip);
  expect(slice.endpoints?.map(({ addresses: [ip] }) => ip)).toEqual(ips);
  return ips;
};

describe('BootstrapController', () => {
  it('creates the objects of every cluster', async () => {
    const { server, bootstrap } = await serve('192.0.2.1');
    await bootstrap.start();
    expect((await server.list('namespaces')).names).toEqual(['default', 'kube-node-lease', 'kube-public', 'kube-system']);
    expect((await server.list('priorityclasses.scheduling.k8s.io')).names).toEqual(['system-cluster-critical', 'system-node-critical']);
    expect(await server.get('services', 'kubernetes')).toMatchObject({
      metadata: { labels: { component: 'apiserver', provider: 'kubernetes' } },
      spec: { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, targetPort: 6443, protocol: 'TCP' }] },
    });
    expect(await server.get('endpointslices.discovery.k8s.io', 'kubernetes')).toMatchObject({
      metadata: { labels: { 'kubernetes.io/service-name': 'kubernetes' } },
      addressType: 'IPv4',
      ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
    });
    expect(await addresses(server)).toEqual(['192.0.2.1']);
  });

  it('restores changed objects and does not write correct ones', async () => {
    const { server, bootstrap } = await serve('192.0.2.1');
    await bootstrap.start();
    const { metadata } = await server.list('services');
    const revision = (await server.get('services', 'kubernetes')).metadata?.resourceVersion;
    await server.clock.advance(35_000);
    expect((await server.get('services', 'kubernetes')).metadata?.resourceVersion).toBe(revision);
    expect(Number((await server.list('services')).metadata.resourceVersion)).toBeGreaterThan(Number(metadata.resourceVersion));
    await server.patch('endpoints', 'kubernetes', { subsets: [] });
    await server.remove('endpointslices.discovery.k8s.io', 'kubernetes');
    await server.remove('services', 'kubernetes');
    await server.clock.advance(10_000);
    expect(await addresses(server)).toEqual(['192.0.2.1']);
    expect(await server.get('services', 'kubernetes')).toMatchObject({ spec: { clusterIP: '10.96.0.1' } });
  });

  it('records the start of legacy token tracking, and replaces an invalid date', async () => {
    const { server, bootstrap } = await serve('192.0.2.1');
    const tracking = ['configmaps', 'kube-apiserver-legacy-service-account-token-tracking'] as const;
    const since = async () => (await server.get<ConfigMap>(...tracking, { namespace: 'kube-system' })).data?.['since'];
    await bootstrap.start();
    const today = new Date(server.clock.now()).toISOString().slice(0, 10);
    await expect.poll(() => since().catch(() => undefined)).toBe(today);
    await server.patch(...tracking, { data: { since: '2020-02-03' } }, { namespace: 'kube-system' });
    await server.clock.advance(10_000);
    expect(await since()).toBe('2020-02-03');
    await server.patch(...tracking, { data: { since: '2020-02-30' } }, { namespace: 'kube-system' });
    await server.clock.advance(10_000);
    await expect.poll(since).toBe(today);
  });

  it('lists the addresses of all running servers and removes those of stopped ones', async () => {
    const clock = new TestClock();
    const storage = new MemoryStorage({ clock });
    const one = await serve('192.0.2.1', clock, storage);
    const two = await serve('192.0.2.2', clock, storage);
    await Promise.all([one.bootstrap.start(), two.bootstrap.start()]);
    await clock.advance(10_000);
    expect(await addresses(one.server)).toEqual(['192.0.2.1', '192.0.2.2']);
    await two.bootstrap.stop();
    expect(await addresses(one.server)).toEqual(['192.0.2.1']);
    // the last address stays, so that clients find the server after its restart
    await one.bootstrap.stop();
    expect(await addresses(one.server)).toEqual(['192.0.2.1']);
  });

  it('removes the address of a server whose lease expired', async () => {
    const clock = new TestClock();
    const storage = new MemoryStorage({ clock });
    const { server, bootstrap } = await serve('192.0.2.1', clock, storage);
    await storage.commit([{ key: '/registry/masterleases/192.0.2.9', value: Buffer.from('{}'), ttlSeconds: 15 }], []);
    await bootstrap.start();
    expect(await addresses(server)).toEqual(['192.0.2.1', '192.0.2.9']);
    await clock.advance(30_000);
    expect(await addresses(server)).toEqual(['192.0.2.1']);
  });

  it('creates no endpoints for addresses that Endpoints reject', async () => {
    const { server, bootstrap } = await serve('127.0.0.1');
    await bootstrap.start();
    expect((await server.list('endpoints')).names).toEqual([]);
    expect((await server.list('services')).names).toEqual(['kubernetes']);
  });

  it('logs once that it has no endpoint', async () => {
    const logged: string[] = [];
    const log: Logger = { ...silentLogger, warn: (_about: object, message?: string) => void logged.push(message ?? '') };
    const { server, bootstrap } = await serve('127.0.0.1', new TestClock(), undefined, log);
    await bootstrap.start();
    await server.clock.advance(35_000);
    expect(logged).toEqual(['the Service kubernetes has no endpoint at this server']);
  });

  it('retries while storage is unavailable', async () => {
    const clock = new TestClock();
    const inner = new MemoryStorage({ clock });
    let failures = 3;
    const storage: StorageDriver = new Proxy(inner, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name === 'commit' && failures > 0)
          return () => {
            failures--;
            return Promise.reject(new StorageError('Unavailable', 'not yet'));
          };
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const { server, bootstrap } = await serve('192.0.2.1', clock, storage);
    const starting = bootstrap.start();
    await clock.advance(5_000);
    await starting;
    expect((await server.list('namespaces')).names).toHaveLength(4);
  });

  it('stops retrying when its start is aborted', async () => {
    const clock = new TestClock();
    const storage: StorageDriver = new Proxy(new MemoryStorage({ clock }), {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name === 'commit') return () => Promise.reject(new StorageError('Unavailable', 'never'));
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const { bootstrap } = await serve('192.0.2.1', clock, storage);
    const abort = new AbortController();
    const starting = bootstrap.start(abort.signal);
    await clock.advance(500);
    abort.abort(new Error('the start was aborted'));
    await expect(starting).rejects.toThrow('the start was aborted');
  });
});
