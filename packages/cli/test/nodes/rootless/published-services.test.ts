import type { Service } from '@oarlock/api/types/core-v1';
import { expect, it } from 'vitest';
import { nodeAddress } from '../../../src/nodes/rootless/node-address.ts';
import { publishedPorts } from '../../../src/nodes/rootless/published-services.ts';

const service = (spec: NonNullable<Service['spec']>, status: NonNullable<Service['status']> = {}): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web', namespace: 'default' },
  spec,
  status,
});

it('publishes node ports at 127.0.0.1, and addresses of load balancers at 127 and their other numbers', () => {
  const ports = [
    { port: 80, nodePort: 30_080 },
    { port: 53, nodePort: 30_053, protocol: 'UDP' },
  ];
  expect(publishedPorts([service({ ports }, { loadBalancer: { ingress: [{ ip: '10.111.255.7' }] } })])).toEqual([
    { address: '127.0.0.1', port: 30_080, target: { protocol: 'tcp', address: nodeAddress, port: 30_080 } },
    { address: '127.111.255.7', port: 80, target: { protocol: 'tcp', address: '10.111.255.7', port: 80 } },
    { address: '127.0.0.1', port: 30_053, target: { protocol: 'udp', address: nodeAddress, port: 30_053 } },
    { address: '127.111.255.7', port: 53, target: { protocol: 'udp', address: '10.111.255.7', port: 53 } },
  ]);
});

it('publishes nothing of a Service with a cluster IP only, of SCTP and of IPv6 addresses', () => {
  expect(publishedPorts([service({ ports: [{ port: 80 }] })])).toEqual([]);
  expect(publishedPorts([service({ ports: [{ port: 80, nodePort: 30_080, protocol: 'SCTP' }] })])).toEqual([]);
  expect(
    publishedPorts([service({ ports: [{ port: 80 }] }, { loadBalancer: { ingress: [{ ip: 'fd00::1' }, { hostname: 'a' }] } })]),
  ).toEqual([]);
});
