import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { configMaps, customResourceDefinitions, endpointSlices, services, validatingWebhookConfigurations } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import { startCluster } from '@oarlock/testing/start-cluster';
import { expect, it } from 'vitest';

/** Validation rejects loopback addresses of endpoints, but not as external names. */
const [never, neverOnLoopback] = ['192.0.2.1', '127.0.0.7'];
const widgets = (version: string) => resource('example.com', version, 'widgets', 'Widget', true);
const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };

it('webhooks of a Service are not called at an address to which the cluster proxies no requests, and others may write its endpoints', async () => {
  let connections = 0;
  const host = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, neverOnLoopback);
  await once(host, 'listening');
  const { port } = host.address() as AddressInfo;
  await using cluster = await startCluster({ spec: { settings: { apiserver: { neverProxied: [never, neverOnLoopback] } } } });
  const { client } = cluster;
  const metadata = { namespace: 'default', name: 'hook' };
  const service = { ...metadata, port };
  await client.create(services, { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports: [{ port }] } });
  await client.create(endpointSlices, {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'hook' } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [never] }],
    ports: [{ name: '', port }],
  });
  await client.create(customResourceDefinitions, {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'widgets.example.com' },
    spec: {
      group: 'example.com',
      names: { plural: 'widgets', kind: 'Widget' },
      scope: 'Namespaced',
      versions: ['v1', 'v2'].map((name) => ({ name, served: true, storage: name === 'v1', schema })),
      conversion: { strategy: 'Webhook', webhook: { clientConfig: { service }, conversionReviewVersions: ['v1'] } },
    },
  });
  await cluster.whenServed(widgets('v2'));
  await client.create(widgets('v1'), { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { namespace: 'default', name: 'w' } });
  await expect(client.get(widgets('v2'), { namespace: 'default', name: 'w' })).rejects.toThrow('address not allowed');
  await client.create(validatingWebhookConfigurations, {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'hook' },
    webhooks: [
      {
        name: 'hook.example.com',
        clientConfig: { service },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
      },
    ],
  });
  const create = (name: string) =>
    client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name } });
  await expect(create('m')).rejects.toThrow('address not allowed');
  // a namespace's user may also name it in a Service
  await client.delete(services, metadata);
  await client.create(services, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata,
    spec: { type: 'ExternalName', externalName: neverOnLoopback },
  });
  await expect(client.get(widgets('v2'), { namespace: 'default', name: 'w' })).rejects.toThrow('address not allowed');
  await expect(create('m')).rejects.toThrow('address not allowed');
  expect(connections).toBe(0);
  host.close();
});
