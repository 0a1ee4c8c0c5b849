import { once } from 'node:events';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type AddressInfo } from 'node:net';
import { readFile } from 'node:fs/promises';
import { createPrivateKey } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { configMaps, customResourceDefinitions, endpointSlices, services, validatingWebhookConfigurations } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import { selfSigned, signLeaf, spkiOf } from '@oarlock/cluster/pki/certificate-writer';
import { newKey } from '@oarlock/cluster/pki/key-pair';
import { startCluster } from '@oarlock/testing/start-cluster';
import { expect, it, vi } from 'vitest';
import { parse } from 'yaml';

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

it('webhooks at an address of this machine, the API server included, get no credentials of the API server', async () => {
  const [ca, key] = [selfSigned('hook', newKey()), newKey()];
  const names = { commonName: 'hook', dnsNames: [], ipAddresses: ['127.0.0.1'], usages: ['server'] as const, days: 1 };
  const received: unknown[] = [];
  const hook = createHttpsServer(
    { cert: signLeaf(ca, spkiOf(createPrivateKey(key)), names), key, requestCert: true, rejectUnauthorized: false },
    ({ headers, socket }, response) => {
      received.push({ names: Object.keys(headers).sort(), certificate: (socket as TLSSocket).getPeerCertificate().subject });
      response.writeHead(403).end();
    },
  ).listen(0, '127.0.0.1');
  await once(hook, 'listening');
  await using cluster = await startCluster({ roles: ['apiserver'] });
  const { client } = cluster;
  const { clusters } = parse(await readFile(cluster.kubeconfig, 'utf8')) as {
    readonly clusters: readonly { readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string } }[];
  };
  const { server = '', 'certificate-authority-data': caOfCluster = '' } = clusters[0]?.cluster ?? {};
  const configure = (name: string, url: string, caBundle: string) =>
    client.create(validatingWebhookConfigurations, {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name },
      webhooks: [
        {
          name: `${name}.example.com`,
          clientConfig: { url, caBundle },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
          matchConditions: [{ name: 'name', expression: `object.metadata.name == '${name}'` }],
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
        },
      ],
    });
  await configure('own', `${server}/api/v1/namespaces/kube-system/secrets`, caOfCluster);
  await configure('other', `https://127.0.0.1:${(hook.address() as AddressInfo).port}/`, Buffer.from(ca.certificate).toString('base64'));
  const create = (name: string) =>
    client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name } });
  // the API server answers itself as it answers every client without credentials
  await vi.waitFor(() => expect(create('own')).rejects.toThrow(/failed calling webhook "own.example.com".*\(401\)/), {
    timeout: 60_000,
    interval: 50,
  });
  await vi.waitFor(() => expect(create('other')).rejects.toThrow('failed calling webhook "other.example.com"'), {
    timeout: 60_000,
    interval: 50,
  });
  expect(received.length).toBeGreaterThan(0);
  const headers = ['accept', 'content-length', 'content-type', 'host', 'user-agent'];
  for (const each of received)
    expect(each).toEqual({
      names: expect.toSatisfy((found: readonly string[]) =>
        found.every((name) => [...headers, 'accept-encoding', 'connection', 'traceparent'].includes(name)),
      ),
      certificate: undefined,
    });
  hook.close();
});
