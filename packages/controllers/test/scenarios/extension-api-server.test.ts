import type { KubeObject } from '@oarlock/api/object';
import { apiServices, configMaps, namespaces, resourceQuotas } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import { Client } from '@oarlock/spi/client';
import { Keys, type ClusterKeys } from '@oarlock/spi/cluster';
import { Controllers } from '@oarlock/spi/controller';
import { extensionServer, type ExtensionServer } from '@oarlock/testing/extension-server';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';

// a complete cluster and an extension API server with its own group, over sockets
const flunders = resource('wardle.example.com', 'v1alpha1', 'flunders', 'Flunder', true);
const name = 'v1alpha1.wardle.example.com';

let keys: ClusterKeys | undefined;
const borrowed = Controllers.plugin({
  id: 'controller-borrowed-keys',
  config: z.strictObject({}),
  needs: { keys: Keys, client: Client },
  create: (dependencies) => {
    ({ keys } = dependencies);
    return { name: 'borrowed-keys', watches: [], reconcile: () => Promise.resolve() };
  },
});

let cluster: TestCluster;
let objects: MemoryApi;
let extension: ExtensionServer;
let client: Client;

beforeAll(async () => {
  cluster = await startCluster({ plugins: [borrowed] });
  client = cluster.client;
  objects = memoryApi({ clock: new FakeClock() });
  if (keys === undefined) throw new Error('the cluster has no keys');
  extension = await extensionServer({ resources: [flunders], handler: objects.handler, keys });
  await extension.register(client);
  await isAvailable('True');
});
afterAll(async () => {
  await cluster?.stop();
  await extension?.stop();
  await objects?.stop();
});

const until = <T>(look: () => Promise<T>) => vi.waitFor(look, { timeout: 120_000, interval: 50 });
const isAvailable = (wanted: string) =>
  until(async () => {
    const { status } = await client.get(apiServices, { name });
    expect(status?.conditions?.find(({ type }) => type === 'Available')?.status).toBe(wanted);
  });
let attempts = 0;
/** Creates a namespace with a unique name, also when a test is retried. */
async function fresh(): Promise<string> {
  const namespace = `extension-${++attempts}`;
  await client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  return namespace;
}
const flunder = (namespace: string, called: string, more: KubeObject['metadata'] = {}): KubeObject => ({
  apiVersion: 'wardle.example.com/v1alpha1',
  kind: 'Flunder',
  metadata: { namespace, name: called, ...more },
});
const refTo = ({ metadata }: KubeObject) => ({
  apiVersion: 'wardle.example.com/v1alpha1',
  kind: 'Flunder',
  name: metadata?.name ?? '',
  uid: metadata?.uid ?? '',
  blockOwnerDeletion: true,
});
const names = async (namespace: string) => (await client.list(flunders, { namespace })).items.map(({ metadata }) => metadata?.name).sort();
const isGone = (namespace: string) => until(() => expect(client.get(namespaces, { name: namespace })).rejects.toMatchObject({ code: 404 }));

describe('cluster with an extension API server', () => {
  it('garbage collects dependents of extension objects and extension objects with deleted owners', async () => {
    const namespace = await fresh();
    const owner = await client.create(flunders, flunder(namespace, 'owner'));
    await client.create(flunders, flunder(namespace, 'dependent', { ownerReferences: [refTo(owner)] }));
    const data = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'data', ownerReferences: [refTo(owner)] } };
    const map = await client.create(configMaps, data);
    const ofMap = { apiVersion: 'v1', kind: 'ConfigMap', name: 'data', uid: map.metadata?.uid ?? '' };
    await client.create(flunders, flunder(namespace, 'of-map', { ownerReferences: [ofMap] }));
    expect(await names(namespace)).toEqual(['dependent', 'of-map', 'owner']);
    await client.delete(flunders, { namespace, name: 'owner' });
    await until(async () => expect(await names(namespace)).toEqual([]));
    await expect(client.get(configMaps, { namespace, name: 'data' })).rejects.toMatchObject({ code: 404 });
  });

  it('deletes an owner after dependents with finalizers', async () => {
    const namespace = await fresh();
    const owner = await client.create(flunders, flunder(namespace, 'owner'));
    await client.create(flunders, flunder(namespace, 'held', { finalizers: ['example.com/hold'], ownerReferences: [refTo(owner)] }));
    await client.delete(flunders, { namespace, name: 'owner' }, { propagationPolicy: 'Foreground' });
    await until(async () => {
      const held = await client.get(flunders, { namespace, name: 'held' });
      expect(held.metadata?.deletionTimestamp).toBeDefined();
    });
    expect((await client.get(flunders, { namespace, name: 'owner' })).metadata?.finalizers).toEqual(['foregroundDeletion']);
    await client.patch(flunders, { namespace, name: 'held' }, 'merge', { metadata: { finalizers: null } });
    await until(async () => expect(await names(namespace)).toEqual([]));
  });

  it('deletes extension objects with their namespace and waits for finalizers', async () => {
    const namespace = await fresh();
    await client.create(flunders, flunder(namespace, 'free'));
    await client.create(flunders, flunder(namespace, 'held', { finalizers: ['example.com/hold'] }));
    await client.delete(namespaces, { name: namespace });
    await until(async () => {
      const { status } = await client.get(namespaces, { name: namespace });
      expect(status?.conditions?.find(({ type }) => type === 'NamespaceFinalizersRemaining')?.message).toBe(
        'Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances',
      );
    });
    expect(await names(namespace)).toEqual(['held']);
    await client.patch(flunders, { namespace, name: 'held' }, 'merge', { metadata: { finalizers: null } });
    await isGone(namespace);
  });

  it('keeps a namespace and reports the reason while the extension is not available, but deletes other content', async () => {
    const namespace = await fresh();
    await client.create(flunders, flunder(namespace, 'left'));
    const data = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'data' } };
    await client.create(configMaps, data);
    try {
      extension.healthy = false;
      await client.patch(apiServices, { name }, 'merge', { spec: { versionPriority: 200 + attempts } }); // triggers discovery at once
      await isAvailable('False');
      await client.delete(namespaces, { name: namespace });
      await until(async () => {
        const { status } = await client.get(namespaces, { name: namespace });
        expect(status?.conditions?.find(({ type }) => type === 'NamespaceDeletionDiscoveryFailure')).toMatchObject({
          status: 'True',
          reason: 'DiscoveryFailed',
        });
      });
      await until(() => expect(client.get(configMaps, { namespace, name: 'data' })).rejects.toMatchObject({ code: 404 }));
    } finally {
      extension.healthy = true;
    }
    await isGone(namespace);
    expect(objects.objects(flunders, namespace)).toEqual([]);
  });

  it('counts extension objects for quotas', async () => {
    const namespace = await fresh();
    const counted = 'count/flunders.wardle.example.com';
    await client.create(flunders, flunder(namespace, 'a'));
    await client.create(resourceQuotas, { metadata: { namespace, name: 'q' }, spec: { hard: { [counted]: '5' } } });
    const used = async (wanted: string) =>
      until(async () => expect((await client.get(resourceQuotas, { namespace, name: 'q' })).status?.used).toEqual({ [counted]: wanted }));
    await used('1');
    await client.create(flunders, flunder(namespace, 'b'));
    await used('2');
    await client.delete(flunders, { namespace, name: 'a' });
    await used('1');
  });
});
