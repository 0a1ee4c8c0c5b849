import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { apiServices, services } from '@oarlock/api/resources';
import { startCluster } from '@oarlock/testing/start-cluster';
import { expect, it, vi } from 'vitest';

/** An address to which the cluster proxies no requests. */
const never = '127.0.0.7';

it.each([
  ['the API server itself', 'localhost'],
  ['the API server itself in decimal', '2130706433'],
  ['a link-local address', '169.254.169.254'],
  ['an address that is never proxied', never],
])('an APIService whose Service leads to %s is not called, and others answer meanwhile', async (_title, externalName) => {
  let connections = 0;
  const host = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, never);
  await once(host, 'listening');
  await using cluster = await startCluster({ spec: { settings: { apiserver: { neverProxied: [never] } } } });
  const port = externalName === never ? (host.address() as AddressInfo).port : Number(new URL(cluster.server).port);
  const { client } = cluster;
  const metadata = { namespace: 'default', name: 'inside' };
  await client.create(services, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata,
    spec: { type: 'ExternalName', externalName, ports: [{ port }] },
  });
  await client.create(apiServices, {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: 'v1.inside.example.com' },
    spec: {
      group: 'inside.example.com',
      version: 'v1',
      groupPriorityMinimum: 100,
      versionPriority: 100,
      insecureSkipTLSVerify: true,
      service: { ...metadata, port },
    },
  });
  await vi.waitFor(
    async () => {
      const { status } = await client.get(apiServices, { name: 'v1.inside.example.com' });
      expect(status?.conditions?.find(({ type }) => type === 'Available')).toMatchObject({
        status: 'False',
        message: expect.stringContaining('address not allowed'),
      });
    },
    { timeout: 120_000, interval: 20 },
  );
  // the path that a proxied request would have at the API server
  await expect(client.raw('GET', '/apis/inside.example.com/v1/namespaces/kube-system/secrets')).rejects.toMatchObject({
    message: expect.stringMatching(/address not allowed|service unavailable/),
  });
  expect(await client.raw('GET', '/version')).toMatchObject({ major: '1' });
  expect(connections).toBe(0);
  host.close();
});
