import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { describe, expect, it } from 'vitest';
import { linkOf } from '../../src/routing/link-monitor.ts';
import { NodePeers, peersOf } from '../../src/routing/node-peers.ts';
import { deviceMac, NodeRoutes } from '../../src/routing/node-routes.ts';

const node = (name: string, address: string, ...podCIDRs: string[]): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  spec: { podCIDRs },
  status: { addresses: [{ type: 'InternalIP', address }] },
});

describe('peers of a node', () => {
  it('are the pod CIDRs of other nodes, via an address of the same family or a tunnel', () => {
    expect(peersOf([node('a', '10.0.0.1', '10.244.0.0/24'), node('b', '10.0.0.2', '10.244.1.0/24', 'fd00:1::/64')], 'a')).toEqual([
      { address: '10.0.0.2', vtep: '10.0.0.2', range: '10.244.1.0/24' },
      { vtep: '10.0.0.2', range: 'fd00:1::/64' },
    ]);
  });
  it('have unique, locally administered MAC addresses on their devices', () => {
    expect(deviceMac('10.0.0.1')).toMatch(/^02(:[0-9a-f]{2}){5}$/);
    expect(deviceMac('10.0.0.1')).not.toBe(deviceMac('10.0.0.2'));
  });
});

describe('link events', () => {
  it('report that a link is up, down or gone', () => {
    const rest = 'mtu 1500 qdisc noqueue state DOWN';
    expect(linkOf(`3: c@d: <BROADCAST,MULTICAST,M-DOWN> ${rest}`)).toEqual({ name: 'c', state: 'down' });
    expect(linkOf(`3: c: <NO-CARRIER,BROADCAST,UP,M-DOWN> ${rest}`)).toEqual({ name: 'c', state: 'up' });
    expect(linkOf(`Deleted 3: c@NONE: <BROADCAST> ${rest}`)).toEqual({ name: 'c', state: 'gone' });
    expect(linkOf('    link/ether b6:a1:f4:6c:bf:2c')).toBeUndefined();
  });
});

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('routes to pods of other nodes', () => {
    const routeLines = (...args: string[]) => execFileSync('ip', args, { encoding: 'utf8' });
    const own = {
      nodeName: 'a',
      podCIDRs: ['10.244.0.0/24'],
      clusterCIDRs: ['10.244.0.0/16'],
      serviceCIDRs: ['10.96.0.0/16'],
      nodeIPs: ['10.0.0.1'],
    };
    it.each(['direct', 'vxlan'] as const)('follow the nodes, and are restored with a link: %s', async (mode) => {
      ip('link', 'add', 'cable', 'type', 'veth', 'peer', 'name', 'end');
      ip('addr', 'add', '10.0.0.1/24', 'dev', 'cable');
      for (const link of ['cable', 'end', 'lo']) ip('link', 'set', link, 'up');
      ip('route', 'add', '10.244.9.0/24', 'via', '10.0.0.9', 'proto', '77'); // left from a node that was deleted while no process ran
      ip('route', 'add', '10.9.0.0/24', 'via', '10.0.0.9', 'proto', '77'); // of another cluster
      const api = memoryApi({ clock: new FakeClock() });
      const client = api.client();
      await client.create(nodes, node('a', '10.0.0.1', '10.244.0.0/24'));
      await client.create(nodes, node('b', '10.0.0.2', '10.244.1.0/24'));
      const routes = new NodeRoutes({
        mode,
        device: 'test-vx',
        id: 7,
        port: 8472,
        peers: new NodePeers(api.informers),
        clock: systemClock,
        log: silentLogger,
      });
      await routes.configure(own);
      const ways = () =>
        routeLines('-o', 'route', 'show', 'proto', '77')
          .trim()
          .split('\n')
          .map((line) => line.trim())
          .sort();
      const way = (range: string, address: string) =>
        mode === 'direct' ? `${range} via ${address} dev cable` : `${range} via ${range.split('/')[0]} dev test-vx onlink`;
      const others = '10.9.0.0/24 via 10.0.0.9 dev cable';
      await expect.poll(ways).toEqual([way('10.244.1.0/24', '10.0.0.2'), others].sort());
      await client.create(nodes, node('c', '10.0.0.3', '10.244.2.0/24'));
      await client.delete(nodes, { name: 'b' });
      await expect.poll(ways).toEqual([way('10.244.2.0/24', '10.0.0.3'), others].sort());
      if (mode === 'vxlan') {
        expect(routeLines('neigh', 'show', 'dev', 'test-vx')).toContain(`10.244.2.0 lladdr ${deviceMac('10.0.0.3')} PERMANENT`);
        expect(execFileSync('bridge', ['fdb', 'show', 'dev', 'test-vx'], { encoding: 'utf8' })).toContain(
          `${deviceMac('10.0.0.3')} dst 10.0.0.3`,
        );
      }
      // the link monitor is a member of the kernel's netlink group
      await expect.poll(() => readFileSync('/proc/net/netlink', 'utf8')).toMatch(/^\S+ +0 +\d+ +\S*1 /m);
      const link = mode === 'direct' ? 'cable' : 'test-vx';
      ip('link', 'set', link, 'down');
      expect(ways()).not.toContain(way('10.244.2.0/24', '10.0.0.3'));
      ip('link', 'set', link, 'up');
      await expect.poll(ways).toContain(way('10.244.2.0/24', '10.0.0.3'));
      if (mode === 'vxlan') {
        ip('link', 'del', 'test-vx');
        await expect.poll(ways).toContain(way('10.244.2.0/24', '10.0.0.3'));
        expect(routeLines('-o', '-4', 'addr', 'show', 'dev', 'test-vx')).toContain('inet 10.244.0.0/32 ');
        expect(routeLines('neigh', 'show', 'dev', 'test-vx')).toContain(`10.244.2.0 lladdr ${deviceMac('10.0.0.3')} PERMANENT`);
      }
      if (mode === 'vxlan') {
        // a node with several ranges is still reached when it gives one up, and is forgotten with the last
        const entries = () => execFileSync('bridge', ['fdb', 'show', 'dev', 'test-vx'], { encoding: 'utf8' });
        const setRanges = (...podCIDRs: string[]) => client.patch(nodes, { name: 'c' }, 'merge', { spec: { podCIDRs } });
        await setRanges('10.244.2.0/24', '10.244.3.0/24');
        await expect.poll(ways).toContain(way('10.244.3.0/24', '10.0.0.3'));
        await setRanges('10.244.2.0/24');
        await expect.poll(ways).not.toContain(way('10.244.3.0/24', '10.0.0.3'));
        await client.create(nodes, node('d', '10.0.0.4', '10.244.4.0/24'));
        await expect.poll(ways).toContain(way('10.244.4.0/24', '10.0.0.4'));
        expect(entries()).toContain(`${deviceMac('10.0.0.3')} dst 10.0.0.3`);
        await client.delete(nodes, { name: 'c' });
        await expect.poll(entries).not.toContain(deviceMac('10.0.0.3'));
        expect(entries()).toContain(`${deviceMac('10.0.0.4')} dst 10.0.0.4`);
      }
      await routes.stop();
      await api.stop();
      ip('link', 'del', 'cable');
      if (mode === 'vxlan') ip('link', 'del', 'test-vx');
    });
  });
