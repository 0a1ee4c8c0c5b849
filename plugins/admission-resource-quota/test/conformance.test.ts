import { configMaps, namespaces, pods, resourceQuotas, secrets, serviceAccounts, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

// named after behaviours of the conformance list; others of them are in packages/testing/test/sig-auth.test.ts
let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster.stop());

const soon = <T>(check: () => Promise<T>) => vi.waitFor(check, { timeout: 120_000, interval: 20 });
async function space(name: string): Promise<string> {
  const { client } = cluster;
  await client.create(namespaces, { metadata: { name } });
  await soon(() => client.get(serviceAccounts, { namespace: name, name: 'default' }));
  return name;
}
async function quota(namespace: string, hard: Record<string, string>, more: ResourceQuota['spec'] = {}, name = 'q'): Promise<void> {
  await cluster.client.create(resourceQuotas, { metadata: { namespace, name }, spec: { hard, ...more } });
  await soon(async () => {
    const { status } = await cluster.client.get(resourceQuotas, { namespace, name });
    expect(status?.hard).toEqual(hard);
    expect(Object.keys(status?.used ?? {}).sort()).toEqual(Object.keys(hard).sort());
  });
}
const used = (namespace: string, expected: Record<string, string>, name = 'q') =>
  soon(async () => expect((await cluster.client.get(resourceQuotas, { namespace, name })).status?.used).toMatchObject(expected));

describe('[sig-api-machinery] ResourceQuota', () => {
  it('should create a ResourceQuota and ensure its status is promptly calculated. [Conformance]', async () => {
    const namespace = await space('prompt');
    await quota(namespace, { cpu: '1', memory: '500Mi', pods: '5', services: '10', secrets: '10', 'requests.storage': '10Gi' });
    await used(namespace, { cpu: '0', memory: '0', pods: '0', services: '0', 'requests.storage': '0' });
  });

  it('should be able to update and delete ResourceQuota. [Conformance]', async () => {
    const { client } = cluster;
    const namespace = await space('update');
    await quota(namespace, { cpu: '1', memory: '500Mi' });
    const found = await client.get(resourceQuotas, { namespace, name: 'q' });
    const updated = await client.update(resourceQuotas, { ...found, spec: { hard: { cpu: '2', memory: '1Gi' } } });
    expect(updated.spec?.hard).toEqual({ cpu: '2', memory: '1Gi' });
    await soon(async () =>
      expect((await client.get(resourceQuotas, { namespace, name: 'q' })).status?.hard).toEqual({ cpu: '2', memory: '1Gi' }),
    );
    await client.delete(resourceQuotas, { namespace, name: 'q' });
    await expect(client.get(resourceQuotas, { namespace, name: 'q' })).rejects.toSatisfy((error) => isStatus(error, 'NotFound'));
  });

  it.each([
    ['configMap', configMaps, 'configmaps', { data: { a: 'b' } }],
    ['secret', secrets, 'secrets', { stringData: { a: 'b' } }],
    ['service', services, 'services', { spec: { ports: [{ port: 80 }] } }],
  ] as const)('should create a ResourceQuota and capture the life of a %s. [Conformance]', async (kind, resource, counted, object) => {
    const { client } = cluster;
    const namespace = await space(`life-${counted}`);
    const before = (await client.list(resource, { namespace })).items.length;
    await quota(namespace, {
      [counted]: String(before + 1),
      resourcequotas: '1',
      ...(kind === 'service' && { 'services.nodeports': '0' }),
    });
    await used(namespace, { [counted]: String(before), resourcequotas: '1' });
    await client.create(resource, { metadata: { namespace, name: 'one' }, ...object } as never);
    await used(namespace, { [counted]: String(before + 1) });
    await expect(client.create(resource, { metadata: { namespace, name: 'two' }, ...object } as never)).rejects.toThrow(
      `exceeded quota: q, requested: ${counted}=1, used: ${counted}=${before + 1}, limited: ${counted}=${before + 1}`,
    );
    if (kind === 'service')
      await expect(
        client.create(services, { metadata: { namespace, name: 'open' }, spec: { type: 'NodePort', ports: [{ port: 80 }] } }),
      ).rejects.toThrow(/exceeded quota: q, requested: services.nodeports=1,services=1/);
    await client.delete(resource, { namespace, name: 'one' });
    await used(namespace, { [counted]: String(before) });
  });

  it('should verify ResourceQuota with terminating scopes. [Conformance]', async () => {
    const { client } = cluster;
    const namespace = await space('terminating');
    const hard = { pods: '5', 'requests.cpu': '1', 'requests.memory': '500Mi', 'limits.cpu': '2', 'limits.memory': '1Gi' };
    await quota(namespace, hard, { scopes: ['Terminating'] }, 'ending');
    await quota(namespace, hard, { scopes: ['NotTerminating'] }, 'lasting');
    const pod = (name: string, more: Partial<NonNullable<Pod['spec']>> = {}): Pod => ({
      metadata: { namespace, name },
      spec: {
        schedulingGates: [{ name: 'test/never' }],
        containers: [
          { name: 'c', image: 'x', resources: { requests: { cpu: '500m', memory: '200Mi' }, limits: { cpu: '1', memory: '400Mi' } } },
        ],
        ...more,
      },
    });
    const full = { pods: '1', 'requests.cpu': '500m', 'requests.memory': '200Mi', 'limits.cpu': '1', 'limits.memory': '400Mi' };
    const empty = { pods: '0', 'requests.cpu': '0', 'requests.memory': '0', 'limits.cpu': '0', 'limits.memory': '0' };
    for (const [name, more, into, other] of [
      ['running', {}, 'lasting', 'ending'],
      ['short', { activeDeadlineSeconds: 3600 }, 'ending', 'lasting'],
    ] as const) {
      await client.create(pods, pod(name, more));
      await used(namespace, full, into);
      await used(namespace, empty, other);
      await client.delete(pods, { namespace, name }, { gracePeriodSeconds: 0 });
      await used(namespace, empty, into);
    }
  });
});
