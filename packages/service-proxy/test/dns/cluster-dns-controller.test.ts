import { endpointSlices, nodes, services } from '@oarlock/api/resources';
import { forbidden } from '@oarlock/api/status';
import type { Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import plugin from '@oarlock/service-proxy/plugin';
import { Client, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Dns, type DnsChanges, type DnsServer } from '@oarlock/spi/dns';
import { Roles } from '@oarlock/spi/role';
import { testFacts } from '@oarlock/testing/controller-contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

class RecordingDns implements DnsServer {
  readonly address = '10.0.0.1';
  readonly port = 10_053;
  readonly clusterDomain = 'cluster.local';
  failures = 0;
  readonly names = new Map<string, readonly string[]>();
  apply({ replace, set, removed }: DnsChanges): Promise<void> {
    if (this.failures > 0) {
      this.failures -= 1;
      return Promise.reject(new Error('no disk'));
    }
    if (replace) this.names.clear();
    for (const name of removed) this.names.delete(name);
    for (const { name, addresses } of set) this.names.set(name, addresses);
    return Promise.resolve();
  }
}

const web: Service = { apiVersion: 'v1', kind: 'Service', metadata: { namespace: 'd', name: 'web' }, spec: { clusterIP: '10.96.0.7' } };
const inKubeSystem = (name: string) => ({ namespace: 'kube-system', name });
const dnsService = (api: ReturnType<typeof memoryApi>) => api.client().get(services, inKubeSystem('kube-dns'));
const dnsSlice = (api: ReturnType<typeof memoryApi>) => api.client().get<EndpointSlice>(endpointSlices, inKubeSystem('kube-dns-n1'));

describe('cluster DNS of the proxy role', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  let dns: RecordingDns;
  let host: PluginHost;
  const open = () =>
    new PluginHost({ clock })
      .provide(Informers, api.informers)
      .provide(Client, api.client())
      .provide(Cluster, testFacts)
      .provide(Dns, dns)
      .add({ plugin, config: { nodeName: 'n1' } });
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    dns = new RecordingDns();
    host = open();
  });
  afterEach(async () => {
    await host.stop();
    await api.stop();
  });

  it('receives added, changed and deleted Services', async () => {
    const client = api.client();
    await client.create(services, web);
    await host.start();
    await clock.advance(20);
    expect(dns.names.get('web.d.svc')).toEqual(['10.96.0.7']);
    const service = await client.create(services, { ...web, metadata: { namespace: 'd', name: 'later' }, spec: { clusterIP: 'None' } });
    await clock.advance(20);
    expect(dns.names.get('later.d.svc')).toEqual([]);
    await client.create(endpointSlices, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace: 'd', name: 'later-x', labels: { 'kubernetes.io/service-name': 'later' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.244.0.9'], hostname: 'later-0' }],
      ports: [],
    } as EndpointSlice);
    await clock.advance(20);
    expect(Object.fromEntries(dns.names)).toMatchObject({ 'later.d.svc': ['10.244.0.9'], 'later-0.later.d.svc': ['10.244.0.9'] });
    await client.delete(services, { namespace: 'd', name: service.metadata?.name ?? '' });
    await clock.advance(20);
    expect([...dns.names.keys()].filter((name) => name.includes('later'))).toEqual([]);
  });

  it('is an endpoint of the Service kube-dns at the cluster DNS address', async () => {
    await host.start();
    await clock.advance(20);
    expect(await dnsService(api)).toMatchObject({
      metadata: { labels: { 'k8s-app': 'kube-dns' } },
      spec: {
        clusterIP: testFacts.dnsServiceIP,
        ports: [
          { name: 'dns', protocol: 'UDP', port: 53 },
          { name: 'dns-tcp', port: 53 },
        ],
      },
    });
    expect(await dnsSlice(api)).toMatchObject({
      endpoints: [{ addresses: ['10.0.0.1'], nodeName: 'n1' }],
      ports: [{ port: 10_053 }, { port: 10_053 }],
    });
    await host.stop();
    await expect(dnsSlice(api)).rejects.toMatchObject({ reason: 'NotFound' });
  });

  it('corrects the EndpointSlice of a server that was killed', async () => {
    await host.start();
    await clock.advance(20);
    const slice = await dnsSlice(api);
    await api.client().update(endpointSlices, { ...slice, ports: [{ name: 'dns', protocol: 'UDP', port: 1 }] });
    const again = open();
    await again.start();
    await clock.advance(20);
    expect((await dnsSlice(api)).ports).toMatchObject([{ port: 10_053 }, { port: 10_053 }]);
    await again.stop();
  });

  it('is used by the pods of its node only, and is deleted with the Node', async () => {
    await host.start();
    await clock.advance(20);
    expect(await dnsSlice(api)).toMatchObject({ endpoints: [{ hints: { forNodes: [{ name: 'n1' }] } }] });
    const owner = async () => (await dnsSlice(api)).metadata?.ownerReferences;
    expect(await owner()).toBeUndefined();
    // the kubelet registers the node later, and again after an administrator has deleted it
    for (const uid of ['first', 'second']) {
      api.seed(nodes, { metadata: { name: 'n1', uid } });
      await clock.advance(20);
      expect(await owner()).toEqual([{ apiVersion: 'v1', kind: 'Node', name: 'n1', uid }]);
    }
  });

  it('leaves the Service to a DNS that runs in pods', async () => {
    await api.client().create(services, {
      ...web,
      metadata: inKubeSystem('kube-dns'),
      spec: { clusterIP: testFacts.dnsServiceIP, selector: { 'k8s-app': 'kube-dns' } },
    });
    // left by a server that was killed before the pods existed
    await api.client().create(endpointSlices, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: inKubeSystem('kube-dns-n1'),
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.0.0.1'] }],
    } as EndpointSlice);
    await host.start();
    await clock.advance(20);
    await expect(dnsSlice(api)).rejects.toMatchObject({ reason: 'NotFound' });
  });

  it('applies all records again after a failure, and is unhealthy meanwhile', async () => {
    dns.failures = 1;
    await api.client().create(services, web);
    await host.start();
    await clock.advance(20);
    const [role] = host.get(Roles);
    expect(await role?.checkHealth()).toEqual({ healthy: false, reason: 'no disk' });
    await clock.advance(1000);
    expect(dns.names.get('web.d.svc')).toEqual(['10.96.0.7']);
    expect(await role?.checkHealth()).toEqual({ healthy: true });
  });

  it('serves only its node until the control plane has created the Service, if it may not create the Service', async () => {
    await api.client().create(services, web);
    api.requests.length = 0;
    api.failNext({ resource: services, verb: 'create' }, forbidden(services, 'kube-dns', 'no'), 100);
    await host.start();
    await clock.advance(20);
    await clock.advance(60_000);
    await expect(dnsSlice(api)).rejects.toMatchObject({ reason: 'NotFound' });
    expect(dns.names.get('web.d.svc')).toEqual(['10.96.0.7']);
    api.seed(services, { metadata: { namespace: 'kube-system', name: 'kube-dns' }, spec: { clusterIP: '10.96.0.10' } });
    await clock.advance(60_000);
    await expect(dnsSlice(api)).resolves.toMatchObject({ endpoints: [{ nodeName: 'n1' }] });
  });
});
