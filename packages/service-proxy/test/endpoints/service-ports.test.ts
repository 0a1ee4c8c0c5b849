import type { Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { servicePorts } from '@oarlock/service-proxy/endpoints/service-ports';
import { describe, expect, it } from 'vitest';

type Spec = NonNullable<Service['spec']>;
const service = (spec: Partial<Spec> = {}, more: Partial<Service> = {}): Service => ({
  metadata: { namespace: 'd', name: 'web' },
  spec: { clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7'], ports: [{ name: 'http', port: 80, protocol: 'TCP' }], ...spec },
  ...more,
});
type Endpoint = NonNullable<EndpointSlice['endpoints']>[number];
const at = (
  ip: string,
  conditions: Endpoint['conditions'] = { ready: true, serving: true, terminating: false },
  nodeName = 'n2',
): Endpoint => ({ addresses: [ip], conditions, nodeName });
const slice = (endpoints: Endpoint[], more: Partial<EndpointSlice> = {}): EndpointSlice => ({
  metadata: { namespace: 'd', name: 's' },
  addressType: 'IPv4',
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  endpoints,
  ...more,
});
const ips = (of: Service, slices: readonly EndpointSlice[]) => servicePorts(of, slices, { name: 'n1' })[0]?.endpoints.map(({ ip }) => ip);

describe('ports of a Service', () => {
  it("are keyed by name, one for each port, with the Service's settings", () => {
    const ports = servicePorts(
      service(
        {
          type: 'LoadBalancer',
          ports: [
            { name: 'http', port: 80, nodePort: 30080 },
            { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30053 },
          ],
          externalIPs: ['192.0.2.1'],
          loadBalancerSourceRanges: ['198.51.100.0/24'],
          sessionAffinity: 'ClientIP',
          externalTrafficPolicy: 'Local',
          internalTrafficPolicy: 'Local',
          healthCheckNodePort: 32000,
          clusterIPs: ['10.96.0.7', 'fd00::7'],
        },
        {
          status: {
            loadBalancer: {
              ingress: [
                { ip: '192.0.2.9' },
                { hostname: 'lb.example' },
                { ip: '192.0.2.10', ipMode: 'Proxy' },
                { ip: '192.0.2.11', ipMode: 'VIP' },
              ],
            },
          },
        },
      ),
      [],
      { name: 'n1' },
    );
    expect(ports.map(({ key, protocol, port, nodePort }) => ({ key, protocol, port, nodePort }))).toEqual([
      { key: 'd/web:http', protocol: 'TCP', port: 80, nodePort: 30080 },
      { key: 'd/web:dns', protocol: 'UDP', port: 53, nodePort: 30053 },
    ]);
    expect(ports[0]).toMatchObject({
      clusterIPs: ['10.96.0.7', 'fd00::7'],
      externalIPs: ['192.0.2.1'],
      loadBalancerIPs: ['192.0.2.9', '192.0.2.11'],
      loadBalancerSourceRanges: ['198.51.100.0/24'],
      affinitySeconds: 10_800,
      internalLocal: true,
      externalLocal: true,
      healthCheckNodePort: 32000,
    });
  });

  it('have source ranges in canonical form', () => {
    const of = service({ type: 'LoadBalancer', loadBalancerSourceRanges: [' 198.51.100.7/24 ', '010.0.0.0/8', '2001:0DB8::/32'] });
    expect(servicePorts(of, [], { name: 'n1' })[0]?.loadBalancerSourceRanges).toEqual(['198.51.100.0/24', '10.0.0.0/8', '2001:db8::/32']);
  });

  it('are empty for Services that the proxy ignores', () => {
    for (const [title, of] of Object.entries({
      headless: service({ clusterIP: 'None', clusterIPs: ['None'] }),
      external: service({ type: 'ExternalName', externalName: 'x.example' }),
      'not allocated': service({ clusterIP: '', clusterIPs: [] }),
      'of another proxy': service(
        {},
        { metadata: { namespace: 'd', name: 'web', labels: { 'service.kubernetes.io/service-proxy-name': 'mesh' } } },
      ),
      'headless by its label': service({}, { metadata: { namespace: 'd', name: 'web', labels: { 'service.kubernetes.io/headless': '' } } }),
    }))
      expect(servicePorts(of, [slice([at('10.244.0.1')])], { name: 'n1' }), title).toEqual([]);
  });

  it('have a node port only for types with node ports', () => {
    expect(
      servicePorts(service({ type: 'ClusterIP', ports: [{ port: 80, nodePort: 30080 }], externalTrafficPolicy: 'Local' }), [], {
        name: 'n1',
      })[0],
    ).toMatchObject({ key: 'd/web:', externalLocal: false });
    expect(servicePorts(service({ type: 'ClusterIP', ports: [{ port: 80, nodePort: 30080 }] }), [], { name: 'n1' })[0]).not.toHaveProperty(
      'nodePort',
    );
  });

  it('have the configured session affinity', () => {
    expect(
      servicePorts(service({ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 7 } } }), [], {
        name: 'n1',
      })[0]?.affinitySeconds,
    ).toBe(7);
    expect(servicePorts(service({ sessionAffinity: 'None' }), [], { name: 'n1' })[0]).not.toHaveProperty('affinitySeconds');
  });
});

describe('endpoints of a port', () => {
  it("are those of every slice, once each, independent of the slices' order", () => {
    const one = slice([at('10.244.0.3'), at('10.244.0.1')]);
    const two = slice([at('10.244.0.2'), at('10.244.0.1')]);
    expect(ips(service(), [one, two])).toEqual(['10.244.0.1', '10.244.0.2', '10.244.0.3']);
    expect(servicePorts(service(), [one, two], { name: 'n1' })).toEqual(servicePorts(service(), [two, one], { name: 'n1' }));
  });

  it('match by port name and protocol, at the target port', () => {
    const of = service({
      ports: [
        { name: 'http', port: 80 },
        { name: 'dns', port: 53, protocol: 'UDP' },
        { name: 'none', port: 99 },
      ],
    });
    const ports = [
      { name: 'http', port: 8080 },
      { name: 'dns', port: 5353, protocol: 'UDP' },
      { name: 'dns', port: 5354, protocol: 'TCP' },
    ];
    expect(
      servicePorts(of, [slice([at('10.244.0.1')], { ports })], { name: 'n1' }).map(({ endpoints }) => endpoints.map(({ port }) => port)),
    ).toEqual([[8080], [5353], []]);
  });

  it('match unnamed ports too, but not slices of other Services', () => {
    const of = service({ ports: [{ port: 80 }] });
    expect(ips(of, [slice([at('10.244.0.1')], { ports: [{ port: 8080 }] })])).toEqual(['10.244.0.1']);
    expect(ips(of, [slice([at('x.example')], { ports: [{ port: 8080 }], addressType: 'FQDN' })])).toEqual([]);
  });

  it('are the ready ones, or else those that serve while terminating', () => {
    const ready = at('10.244.0.1');
    const notReady = at('10.244.0.2', { ready: false, serving: false, terminating: false });
    const ending = at('10.244.0.3', { ready: false, serving: true, terminating: true });
    const ended = at('10.244.0.4', { ready: false, serving: false, terminating: true });
    const unknown = at('10.244.0.5', {});
    expect(ips(service(), [slice([ready, notReady, ending, ended, unknown])])).toEqual(['10.244.0.1', '10.244.0.5']);
    expect(ips(service(), [slice([notReady, ending, ended])])).toEqual(['10.244.0.3']);
    expect(ips(service(), [slice([notReady, ended])])).toEqual([]);
  });

  it('include whether they are on this node', () => {
    const [port] = servicePorts(service(), [slice([at('10.244.0.1', undefined, 'n1'), at('10.244.0.2', undefined, 'n2')])], {
      name: 'n1',
    });
    expect(port?.endpoints.map(({ local }) => local)).toEqual([true, false]);
  });

  it('include those of policy Local, even if policy Cluster selects others', () => {
    const slices = [slice([at('10.244.0.1'), at('10.244.0.2', { ready: false, serving: true, terminating: true }, 'n1')])];
    expect(servicePorts(service({ internalTrafficPolicy: 'Local' }), slices, { name: 'n1' })[0]?.endpoints).toEqual([
      { ip: '10.244.0.1', port: 8080, local: false, ready: true, serving: true, terminating: false },
      { ip: '10.244.0.2', port: 8080, local: true, ready: false, serving: true, terminating: true, localOnly: true },
    ]);
    expect(ips(service(), slices)).toEqual(['10.244.0.1']);
  });

  it('are selected for each family separately', () => {
    const six = slice([at('fd00::1', { ready: false, serving: true, terminating: true })], { addressType: 'IPv6' });
    expect(ips(service(), [slice([at('10.244.0.1')]), six])).toEqual(['10.244.0.1', 'fd00::1']);
  });

  describe('endpoints with topology hints', () => {
    const hinted = (ip: string, zone: string, node: string): Endpoint => ({
      ...at(ip, undefined, node),
      hints: { forZones: [{ name: zone }], forNodes: [{ name: node }] },
    });
    const near = (endpoints: Endpoint[], node: { name: string; zone?: string }) =>
      servicePorts(service(), [slice(endpoints)], node)[0]?.endpoints.map(({ ip }) => ip);
    const both = [hinted('10.244.0.1', 'a', 'n1'), hinted('10.244.0.2', 'a', 'n2'), hinted('10.244.0.3', 'b', 'n3')];

    it('are those of the node, else of its zone, else all', () => {
      expect(near(both, { name: 'n1', zone: 'a' })).toEqual(['10.244.0.1']);
      expect(near(both, { name: 'n9', zone: 'a' })).toEqual(['10.244.0.1', '10.244.0.2']);
      expect(near(both, { name: 'n9', zone: 'c' })).toHaveLength(3);
      expect(near(both, { name: 'n9' })).toHaveLength(3);
    });

    it('are all if one of them has no hint', () => {
      expect(near([...both, at('10.244.0.4')], { name: 'n1', zone: 'a' })).toHaveLength(4);
    });
  });
});
