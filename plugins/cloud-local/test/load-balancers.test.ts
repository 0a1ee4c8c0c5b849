import type { Service } from '@oarlock/api/types/core-v1';
import { AddressPool } from '../src/address-pool.ts';
import { LocalLoadBalancers } from '../src/local-load-balancers.ts';
import { beforeEach, describe, expect, it } from 'vitest';

const service = (name: string, port: number, spec: Service['spec'] = {}, ip?: string): Service => ({
  metadata: { namespace: 'd', name },
  spec: { type: 'LoadBalancer', ports: [{ port, protocol: 'TCP' }], ...spec },
  ...(ip !== undefined && { status: { loadBalancer: { ingress: [{ ip }] } } }),
});

describe('address pool', () => {
  it('has the addresses of its ranges, in order', () => {
    expect([...new AddressPool(['10.0.0.0/30', '10.0.1.5', '10.0.2.254-10.0.3.1', 'fd00::a-fd00::b']).all('IPv4')]).toEqual([
      '10.0.0.1',
      '10.0.0.2',
      '10.0.1.5',
      '10.0.2.254',
      '10.0.2.255',
      '10.0.3.0',
      '10.0.3.1',
    ]);
    const pool = new AddressPool(['fd00::a-fd00::b', '10.0.0.0/31']);
    expect([...pool.all('IPv6')]).toEqual(['fd00::a', 'fd00::b']);
    expect([...pool.all('IPv4')]).toEqual(['10.0.0.0', '10.0.0.1']);
    expect(pool.has('fd00::b')).toBe(true);
    expect(pool.has('fd00::c')).toBe(false);
    expect(pool.has('a')).toBe(false);
  });

  it.each(['', 'a', '10.0.0.0/33', '10.0.0.9-10.0.0.1', '10.0.0.1-fd00::1', 'fd00::/64', '10.0.0.0/x'])('rejects %j', (text) => {
    expect(() => new AddressPool([text])).toThrow(RangeError);
  });
});

describe('local load balancers', () => {
  let present: Service[];
  let balancers: LocalLoadBalancers;
  const open = (ranges: readonly string[]) => new LocalLoadBalancers({ pool: new AddressPool(ranges), services: { list: () => present } });
  beforeEach(() => {
    present = [];
    balancers = open(['10.9.0.1-10.9.0.2', 'fd00::1']);
  });
  const ensure = async (wanted: Service) => {
    const { ingress = [] } = await balancers.ensure(wanted);
    present = [
      ...present.filter(({ metadata }) => metadata?.name !== wanted.metadata?.name),
      { ...wanted, status: { loadBalancer: { ingress } } },
    ];
    return ingress.map(({ ip }) => ip);
  };

  it('have their own addresses while there are free ones, and then share addresses with different ports', async () => {
    expect(await ensure(service('a', 80))).toEqual(['10.9.0.1']);
    expect(await ensure(service('b', 80))).toEqual(['10.9.0.2']);
    expect(await ensure(service('c', 443))).toEqual(['10.9.0.1']);
    await expect(ensure(service('d', 80))).rejects.toMatchObject({ code: 'NotAvailable' });
    await balancers.remove(service('b', 80));
    present = present.filter(({ metadata }) => metadata?.name !== 'b');
    expect(await ensure(service('d', 80))).toEqual(['10.9.0.2']);
  });

  it('move when a new port conflicts with another Service', async () => {
    await ensure(service('a', 80));
    await ensure(service('b', 80));
    await ensure(service('c', 443));
    expect(await ensure(service('c', 80)).catch((error: Error) => error.message)).toBe('no address is left for the load balancer');
    expect(await ensure(service('c', 81))).toEqual(['10.9.0.1']);
  });

  it('keep the addresses that an earlier process assigned', async () => {
    present = [service('a', 80, {}, '10.9.0.1')];
    balancers = open(['10.9.0.1-10.9.0.2']);
    expect(await ensure(service('b', 80))).toEqual(['10.9.0.2']);
    expect(await ensure(service('a', 80, {}, '10.9.0.1'))).toEqual(['10.9.0.1']);
  });

  it('have an address in each family', async () => {
    expect(await ensure(service('a', 80, { ipFamilies: ['IPv6', 'IPv4'] }))).toEqual(['fd00::1', '10.9.0.1']);
  });

  it('have the requested address if it is free and in the ranges', async () => {
    expect(await ensure(service('a', 80, { loadBalancerIP: '10.9.0.2' }))).toEqual(['10.9.0.2']);
    await expect(ensure(service('b', 80, { loadBalancerIP: '10.9.0.2' }))).rejects.toMatchObject({ code: 'NotAvailable' });
    await expect(ensure(service('b', 80, { loadBalancerIP: '10.8.0.2' }))).rejects.toMatchObject({ code: 'Invalid' });
  });
});
