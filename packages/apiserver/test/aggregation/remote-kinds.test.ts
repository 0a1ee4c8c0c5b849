import type { KubeObject } from '@oarlock/api/object';
import { apiServices } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import { loopbackClient, LoopbackTransport } from '@oarlock/client/loopback-client';
import { systemClock } from '@oarlock/primitives/clock';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { AuditEvent } from '@oarlock/spi/audit';
import { Audit } from '@oarlock/spi/audit';
import { Authn, authenticated } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import type { Client } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Loopback } from '@oarlock/spi/loopback';
import { Storage } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { extensionServer, type ExtensionServer } from '@oarlock/testing/extension-server';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import apiserver from '../../src/plugin.ts';
import { testKeys } from '../support/keys.ts';

const flunders = resource('wardle.example.com', 'v1alpha1', 'flunders', 'Flunder', true);
const fischers = resource('wardle.example.com', 'v1alpha1', 'fischers', 'Fischer', false);
const events: AuditEvent[] = [];
const plain = z.strictObject({});

let extension: ExtensionServer;
let objects: MemoryApi;
let host: PluginHost;
let client: Client;

beforeAll(async () => {
  const keys = await testKeys();
  objects = memoryApi({ clock: new FakeClock() });
  extension = await extensionServer({ resources: [flunders, fischers], handler: objects.handler, keys });
  const loopback = new LoopbackTransport();
  host = new PluginHost({ clock: systemClock });
  host
    .provide(Cluster, {
      name: 'test',
      domain: 'cluster.local',
      podCIDRs: ['127.0.0.0/16'],
      serviceCIDRs: ['127.96.0.0/16'],
      kubernetesServiceIP: '127.96.0.1',
      dnsServiceIP: '127.96.0.10',
      serverUrl: 'https://127.0.0.1:6443',
      nodePortRange: { from: 30_000, to: 32_767 },
      version: 'v1.36.0+oarlock.test',
    })
    .provide(Keys, keys)
    .provide(Loopback, loopback);
  host.add({ plugin: Storage.plugin({ id: 'storage-test', config: plain, create: (_, { clock }) => new MemoryStorage({ clock }) }) });
  const authenticator = { authenticate: () => authenticated({ name: 'unused', groups: [] }) };
  host.add({ plugin: Authn.plugin({ id: 'authn-test', config: plain, create: () => authenticator }) });
  host.add({
    plugin: Authz.plugin({
      id: 'authz-test',
      config: plain,
      create: () => ({
        authorize: ({ identity, verb }) =>
          identity.name === 'reader' && !['get', 'list', 'watch'].includes(verb)
            ? { decision: 'deny', reason: 'readers may only read' }
            : { decision: 'allow', reason: 'test' },
      }),
    }),
  });
  host.add({
    plugin: Audit.plugin({ id: 'audit-test', config: plain, create: () => ({ record: (event) => void events.push(event) }) }),
  });
  host.add({ plugin: apiserver, name: 'apiserver', config: { listen: { port: 0 } } });
  await host.start();
  client = loopbackClient(loopback, { name: 'ada', groups: ['devs'] });
  await extension.register(client);
  await until(async () => {
    const { status } = await client.get(apiServices, { name: 'v1alpha1.wardle.example.com' });
    return status?.conditions?.some(({ type, status: is }) => type === 'Available' && is === 'True') === true;
  });
});
afterAll(async () => {
  await host?.stop();
  await extension?.stop();
  await objects?.stop();
});

const until = (condition: () => Promise<boolean>) =>
  vi.waitFor(async () => expect(await condition()).toBe(true), { timeout: 120_000, interval: 20 });
let attempts = 0;
/** Returns a namespace that no other test uses, also when a test is repeated. */
const newNamespace = () => `n${++attempts}`;
const flunder = (namespace: string, name: string, more: KubeObject['metadata'] = {}): KubeObject => ({
  metadata: { namespace, name, ...more },
});

describe('kinds of extension API servers, for callers in this process', () => {
  it('are created, read, updated and deleted with the identity of the caller', async () => {
    const ns = newNamespace();
    const created = await client.create(flunders, flunder(ns, 'a', { labels: { x: 'y' } }));
    expect(created).toMatchObject({ kind: 'Flunder', apiVersion: 'wardle.example.com/v1alpha1', metadata: { name: 'a' } });
    expect(Object.isFrozen(created.metadata)).toBe(true);
    expect(extension.requests.at(-1)).toEqual({
      user: 'ada',
      method: 'POST',
      url: `/apis/wardle.example.com/v1alpha1/namespaces/${ns}/flunders`,
    });
    expect(await client.get(flunders, { namespace: ns, name: 'a' })).toEqual(created);
    const patched = await client.patch(flunders, { namespace: ns, name: 'a' }, 'merge', { metadata: { labels: { x: 'z' } } });
    expect(patched.metadata?.labels).toEqual({ x: 'z' });
    const labelled = await client.update(flunders, { ...patched, metadata: { ...patched.metadata, labels: { x: 'w' } } });
    expect((await client.list(flunders, { namespace: ns, labelSelector: 'x=w' })).items).toEqual([labelled]);
    expect((await client.list(flunders, { namespace: ns, labelSelector: 'x=y' })).items).toEqual([]);
    await client.delete(flunders, { namespace: ns, name: 'a' }, { preconditions: { uid: created.metadata?.uid ?? '' } });
    await expect(client.get(flunders, { namespace: ns, name: 'a' })).rejects.toMatchObject({ code: 404 });
    await client.create(fischers, { metadata: { name: ns } });
    expect((await client.get(fischers, { name: ns })).kind).toBe('Fischer');
  });

  it('are deleted as a collection', async () => {
    const ns = newNamespace();
    for (const name of ['a', 'b']) await client.create(flunders, flunder(ns, name));
    await client.create(flunders, flunder(`${ns}-other`, 'a'));
    await client.deleteCollection(flunders, { namespace: ns });
    const left = (await client.list(flunders)).items.map(({ metadata }) => metadata?.namespace);
    expect(left.filter((each) => each?.startsWith(ns))).toEqual([`${ns}-other`]);
  });

  it('are rejected with the status of their server', async () => {
    const ns = newNamespace();
    await client.create(flunders, flunder(ns, 'a'));
    await expect(client.create(flunders, flunder(ns, 'a'))).rejects.toMatchObject({
      code: 409,
      status: { reason: 'AlreadyExists' },
    });
    const stale = { ...flunder(ns, 'a', { resourceVersion: '1' }), kind: 'Flunder', apiVersion: 'wardle.example.com/v1alpha1' };
    await expect(client.update(flunders, stale)).rejects.toMatchObject({ code: 409, status: { reason: 'Conflict' } });
  });

  it('are authorized first, and names cannot address other paths', async () => {
    const ns = newNamespace();
    const loopback = host.get(Loopback) as LoopbackTransport;
    const reader = loopbackClient(loopback, { name: 'reader', groups: [] });
    const before = extension.requests.length;
    await expect(reader.create(flunders, flunder(ns, 'a'))).rejects.toMatchObject({ code: 403 });
    for (const name of ['..', 'a/../../secrets', 'a%2f'])
      await expect(client.get(flunders, { namespace: ns, name })).rejects.toMatchObject({ code: 400 });
    expect(extension.requests.slice(before).filter(({ user }) => user === 'reader' || user === 'ada')).toEqual([]);
    await expect(reader.get(flunders, { namespace: ns, name: 'what?watch=1#x' })).rejects.toMatchObject({ code: 404 });
    expect(extension.requests.at(-1)?.url).toBe(`/apis/wardle.example.com/v1alpha1/namespaces/${ns}/flunders/what%3Fwatch%3D1%23x`);
  });

  it('are watched until the caller aborts or the server ends the watch', async () => {
    const ns = newNamespace();
    await client.create(flunders, flunder(ns, 'a'));
    const abort = new AbortController();
    const seen: string[] = [];
    const watching = (async () => {
      for await (const batch of client.watch(flunders, { namespace: ns, signal: abort.signal, sendInitialEvents: true }))
        for (const { type, object } of batch) seen.push(`${type} ${object.metadata?.name ?? ''}`);
    })();
    await until(async () => seen.length === 2);
    await client.create(flunders, flunder(ns, 'b'));
    await until(async () => seen.length === 3);
    expect(seen).toEqual(['ADDED a', 'BOOKMARK ', 'ADDED b']);
    abort.abort();
    await watching;
    objects.compact();
    const resumed = client.watch(flunders, { resourceVersion: '1', signal: new AbortController().signal });
    await expect(resumed[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 410 });
    const ended = client.watch(flunders, { signal: new AbortController().signal })[Symbol.asyncIterator]();
    const [, last] = await Promise.all([until(async () => extension.requests.at(-1)?.url.includes('watch') === true), ended.next()]);
    expect(last.done).toBe(false);
    objects.dropWatches(flunders);
    expect((await ended.next()).done).toBe(true);
  });

  it('are audited', async () => {
    const ns = newNamespace();
    events.length = 0;
    await client.create(flunders, flunder(ns, 'a'));
    expect(events.find(({ stage }) => stage === 'ResponseComplete')).toMatchObject({
      verb: 'create',
      user: { username: 'ada' },
      objectRef: { resource: 'flunders', namespace: ns, apiGroup: 'wardle.example.com' },
      responseStatus: { code: 201 },
      annotations: { 'authorization.k8s.io/decision': 'allow' },
    });
  });

  it('are unavailable while their server does not respond', async () => {
    extension.healthy = false;
    await expect(client.list(flunders)).rejects.toMatchObject({ code: 503 });
    extension.healthy = true;
    expect((await client.list(flunders, { namespace: 'empty' })).items).toEqual([]);
  });
});
