import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import type { Service } from '@oarlock/api/types/core-v1';
import type { IPAddress } from '@oarlock/api/types/networking-v1';
import { parseIPNumber, formatIPNumber } from '@oarlock/api/net/ip-number';
import { IPRange } from '../../../src/registry/strategies/ip-range.ts';
import { rejectionOf, TestServer, type ServerOptions } from '../../support/pipeline-fixture.ts';

let server: TestServer;
const start = async (options: ServerOptions = {}) => {
  server = await TestServer.start(options);
};
beforeEach(() => start());
afterEach(() => server.stop());

const service = (name: string, spec: Record<string, unknown> = {}): KubeObject => ({
  kind: 'Service',
  apiVersion: 'v1',
  metadata: { name },
  ...{ spec: { selector: { app: name }, ports: [{ port: 80 }], ...spec } },
});
const create = (name: string, spec?: Record<string, unknown>, on = server) => on.create<Service>('services', service(name, spec));
const keys = async () => {
  const below = async (prefix: string, as: string) =>
    (await server.storage.range({ prefix })).entries.map(({ key }) => `${as}${key.slice(prefix.length)}`);
  return [...(await below('/registry/ipaddresses.networking.k8s.io/', 'serviceips/')), ...(await below('/registry/ranges/', ''))];
};
const message = async (call: Promise<unknown>) => (await rejectionOf(call)).message;

describe('cluster IPs', () => {
  it('are recorded by IPAddresses that refer to the Service without a group', async () => {
    const created = await create('a');
    const address = await server.get<IPAddress>('ipaddresses.networking.k8s.io', created.spec?.clusterIP ?? '');
    expect(address.spec).toEqual({ parentRef: { resource: 'services', namespace: 'default', name: 'a' } });
  });

  it('are allocated from the upper part of the range and kept', async () => {
    const created = await create('a');
    const ip = created.spec?.clusterIP ?? '';
    expect(created).toMatchObject({
      spec: {
        clusterIPs: [ip],
        ipFamilies: ['IPv4'],
        ipFamilyPolicy: 'SingleStack',
        type: 'ClusterIP',
        internalTrafficPolicy: 'Cluster',
        sessionAffinity: 'None',
        ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }],
      },
      status: { loadBalancer: {} },
    });
    expect(Number(ip.split('.')[3])).toBeGreaterThan(16);
    expect(await keys()).toEqual([`serviceips/${ip}`]);
    expect((await server.list('services', { fieldSelector: `spec.clusterIP=${ip}` })).names).toEqual(['a']);
  });

  it('can be chosen by the client, once', async () => {
    await create('a', { clusterIP: '10.96.0.10' });
    expect(await message(create('b', { clusterIP: '10.96.0.10' }))).toBe(
      'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.10"]: failed to allocate IP 10.96.0.10: provided IP is already allocated',
    );
    expect(await message(create('b', { clusterIP: '192.0.2.1' }))).toContain(
      'failed to allocate IP 192.0.2.1: the provided IP (192.0.2.1) is not in the valid range. The range of valid IPs is 10.96.0.0/24',
    );
    expect(await message(create('b', { clusterIP: 'nonsense' }))).toContain(
      'spec.clusterIPs[0]: Invalid value: "nonsense": must be a valid IP address',
    );
    await server.remove('services', 'a');
    expect(await create('b', { clusterIP: '10.96.0.10' })).toMatchObject({ spec: { clusterIP: '10.96.0.10' } });
  });

  it('are exhausted and released', async () => {
    await server.stop();
    await start({ facts: { serviceCIDRs: ['10.96.0.0/29'] } });
    for (let i = 0; i < 6; i++) await create(`s${i}`);
    expect(new Set((await server.list('services')).items.map(({ object }) => (object as Service).spec?.clusterIP)).size).toBe(6);
    expect((await rejectionOf(create('more'))).status).toMatchObject({
      code: 500,
      message: 'Internal error occurred: failed to allocate a serviceIP: range is full',
    });
    await server.remove('services', 's3');
    await server.list('services');
    expect(await create('more')).toMatchObject({ spec: { clusterIP: expect.stringMatching(/^10\.96\.0\./) as string } });
  });

  it('are not allocated for headless and ExternalName services', async () => {
    expect(await create('headless', { clusterIP: 'None' })).toMatchObject({
      spec: { clusterIP: 'None', clusterIPs: ['None'], ipFamilies: ['IPv4'] },
    });
    expect(await create('alone', { clusterIP: 'None', selector: {} })).toMatchObject({
      spec: { ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'RequireDualStack' },
    });
    const external = await create('external', { type: 'ExternalName', externalName: 'example.com', selector: undefined, ports: undefined });
    expect(external.spec).not.toHaveProperty('clusterIP');
    expect(await keys()).toEqual([]);
  });

  it('are kept if an update omits them', async () => {
    const created = await create('a', { type: 'NodePort' });
    const again = await server.update<Service>('services', { ...service('a', { type: 'NodePort' }), metadata: { name: 'a' } });
    expect(again.spec).toEqual(created.spec);
    expect(again.metadata?.resourceVersion).toBe(created.metadata?.resourceVersion);
    expect(
      await message(
        server.update('services', { ...created, ...{ spec: { ...created.spec, clusterIP: '10.96.0.99', clusterIPs: ['10.96.0.99'] } } }),
      ),
    ).toContain('may not change once set');
  });

  it('are released and allocated when the type changes', async () => {
    const created = await create('a');
    const external = await server.update<Service>('services', {
      ...created,
      ...{ spec: { type: 'ExternalName', externalName: 'example.com', ports: created.spec?.ports } },
    });
    expect(external.spec).not.toHaveProperty('clusterIP');
    expect(external.spec).not.toHaveProperty('ipFamilies');
    expect(await keys()).toEqual([]);
    const back = await server.patch<Service>('services', 'a', { spec: { type: 'ClusterIP', externalName: null } });
    expect(await keys()).toEqual([`serviceips/${back.spec?.clusterIP}`]);
  });

  it('have both families in a dual-stack cluster', async () => {
    await server.stop();
    await start({ facts: { serviceCIDRs: ['10.96.0.0/24', 'fd00:10:96::/112'] } });
    const created = await create('dual', { ipFamilyPolicy: 'PreferDualStack' });
    expect(created.spec?.ipFamilies).toEqual(['IPv4', 'IPv6']);
    expect(created.spec?.clusterIPs?.[1]).toMatch(/^fd00:10:96::/);
    expect(await keys()).toHaveLength(2);
    const single = await server.patch<Service>('services', 'dual', { spec: { ipFamilyPolicy: 'SingleStack' } });
    expect(single.spec).toMatchObject({ clusterIPs: [created.spec?.clusterIP], ipFamilies: ['IPv4'] });
    expect(await keys()).toHaveLength(1);
    expect(await create('six', { ipFamilies: ['IPv6'] })).toMatchObject({
      spec: { clusterIP: expect.stringMatching(/^fd00:10:96::/) as string },
    });
    expect(await message(create('both', { ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv4', 'IPv6'] }))).toContain(
      "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    );
  });

  it('are rejected for families that the cluster does not have', async () => {
    expect(await message(create('a', { ipFamilyPolicy: 'RequireDualStack' }))).toBe(
      'Service "a" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services',
    );
    expect(await message(create('a', { ipFamilies: ['IPv6'] }))).toBe(
      'Service "a" is invalid: spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
    );
  });

  it('are allocated once by several servers at the same time', async () => {
    await server.stop();
    await start({ facts: { serviceCIDRs: ['10.96.0.0/26'] } });
    const other = await TestServer.start({ storage: server.storage, facts: { serviceCIDRs: ['10.96.0.0/26'] } });
    const created = await Promise.all(
      Array.from({ length: 60 }, (_, i) => create(`s${i}`, { type: 'NodePort' }, i % 2 === 0 ? server : other)),
    );
    expect(new Set(created.map(({ spec }) => spec?.clusterIP)).size).toBe(60);
    expect(new Set(created.map(({ spec }) => spec?.ports?.[0]?.nodePort)).size).toBe(60);
    const race = await Promise.allSettled([
      create('x', { clusterIP: created[0]?.spec?.clusterIP }, other),
      create('x', {}, server),
      create('x', {}, other),
    ]);
    expect(race.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await Promise.all(created.map(({ metadata }) => server.remove('services', metadata?.name ?? '')));
    await server.remove('services', 'x');
    expect(await keys()).toEqual([]);
    await other.stop();
  });

  it('are not allocated in a dry run', async () => {
    const created = await server.create<Service>('services', service('a'), { query: { dryRun: 'All' } });
    expect(created.spec?.clusterIP).toMatch(/^10\.96\.0\./);
    expect(await keys()).toEqual([]);
  });

  it('are kept if an update of the service is invalid', async () => {
    await rejectionOf(create('a', { ports: [{ port: 0 }] }));
    await create('b', { clusterIP: '10.96.0.20' });
    await rejectionOf(create('b', { type: 'NodePort' }));
    expect(await keys()).toEqual(['serviceips/10.96.0.20']);
  });
});

describe('node ports', () => {
  it('are allocated for types that need them, and shared by protocols of one port', async () => {
    const created = await create('a', {
      type: 'NodePort',
      ports: [
        { name: 'tcp', port: 53, protocol: 'TCP' },
        { name: 'udp', port: 53, protocol: 'UDP' },
        { name: 'web', port: 80 },
      ],
    });
    const [tcp, udp, web] = created.spec?.ports?.map(({ nodePort }) => nodePort) ?? [];
    expect(tcp).toBe(udp);
    expect(web).not.toBe(tcp);
    for (const port of [tcp, web]) expect(port).toBeGreaterThanOrEqual(30000 + 85);
    expect((await keys()).filter((key) => key.startsWith('servicenodeports/')).sort()).toEqual(
      [tcp, web].map((port) => `servicenodeports/${port}`).sort(),
    );
  });

  it('can be chosen by the client, once and in range', async () => {
    await create('a', { type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] });
    expect(await message(create('b', { type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] }))).toBe(
      'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated',
    );
    expect(await message(create('b', { type: 'NodePort', ports: [{ port: 80, nodePort: 80 }] }))).toBe(
      'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767',
    );
    await server.patch('services', 'a', { spec: { type: 'ClusterIP' } });
    expect(await create('b', { type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] })).toMatchObject({
      spec: { ports: [{ nodePort: 30080 }] },
    });
  });

  it("follow changes of the service's ports", async () => {
    const created = await create('a', {
      type: 'NodePort',
      ports: [
        { name: 'a', port: 80, nodePort: 30080 },
        { name: 'b', port: 81, nodePort: 30081 },
      ],
    });
    await server.update('services', {
      ...created,
      ...{
        spec: {
          ...created.spec,
          ports: [
            { name: 'b', port: 81 },
            { name: 'c', port: 82, nodePort: 30082 },
          ],
        },
      },
    });
    expect((await keys()).filter((key) => key.startsWith('servicenodeports/'))).toEqual([
      'servicenodeports/30081',
      'servicenodeports/30082',
    ]);
  });

  it('lose the traffic policy with the last external IP', async () => {
    const created = await create('a', { externalIPs: ['192.0.2.1'] });
    expect(created.spec?.externalTrafficPolicy).toBe('Cluster');
    const closed = await server.patch<Service>('services', 'a', { spec: { externalIPs: [] } });
    expect(closed.spec).not.toHaveProperty('externalTrafficPolicy');
  });

  it('include a health check port with externalTrafficPolicy Local', async () => {
    const created = await create('a', { type: 'LoadBalancer', externalTrafficPolicy: 'Local' });
    expect(created.spec?.healthCheckNodePort).toBeGreaterThanOrEqual(30000);
    expect((await keys()).filter((key) => key.startsWith('servicenodeports/'))).toHaveLength(2);
    const cluster = await server.patch<Service>('services', 'a', { spec: { externalTrafficPolicy: 'Cluster' } });
    expect(cluster.spec).not.toHaveProperty('healthCheckNodePort');
    expect((await keys()).filter((key) => key.startsWith('servicenodeports/'))).toHaveLength(1);
    const none = await create('b', { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false });
    expect(none.spec?.ports?.[0]).not.toHaveProperty('nodePort');
  });

  it('are released when the last finalizer of the service is removed', async () => {
    await server.create('services', { ...service('a', { type: 'NodePort' }), metadata: { name: 'a', finalizers: ['example.com/hold'] } });
    await server.remove('services', 'a');
    expect(await keys()).toHaveLength(2);
    await server.patch('services', 'a', { metadata: { finalizers: null } }, { subresource: 'status' });
    expect(await keys()).toEqual([]);
  });
});

describe('IPRange', () => {
  it('parses and formats addresses of both families', () => {
    for (const text of ['10.0.0.1', '255.255.255.255', '0.0.0.0']) expect(formatIPNumber(parseIPNumber(text) ?? 0n, 'IPv4')).toBe(text);
    for (const [text, canonical = text] of [
      ['fd00::1'],
      ['::'],
      ['::1'],
      ['1:0:0:2::3', '1:0:0:2::3'],
      ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
      ['::ffff:10.0.0.1', '::ffff:a00:1'],
    ] as const) {
      expect(formatIPNumber(parseIPNumber(text) ?? 0n, 'IPv6')).toBe(canonical);
    }
    expect(parseIPNumber('10.0.0')).toBeUndefined();
    expect(parseIPNumber('fe80::1%eth0')).toBeUndefined();
  });

  it('excludes the network and broadcast addresses', () => {
    const range = new IPRange('10.96.0.128/29');
    expect([range.size, range.at(0), range.at(range.size - 1)]).toEqual([6, '10.96.0.129', '10.96.0.134']);
    expect(['10.96.0.128', '10.96.0.135', '10.96.0.130', '::1'].map((address) => range.contains(address))).toEqual([
      false,
      false,
      true,
      false,
    ]);
    expect(new IPRange('fd00::/64').size).toBe(65_536);
    expect(() => new IPRange('10.0.0.0')).toThrow(RangeError);
  });
});
