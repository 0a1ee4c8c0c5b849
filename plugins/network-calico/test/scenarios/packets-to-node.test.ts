import { execFileSync } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { datagram, routerAdvertisement, sendFrame } from '@oarlock/testing/network/frames';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, describe, expect, it } from 'vitest';
import { openCalico, type CalicoFixture } from '../support/calico-fixture.ts';

const ranges = [
  { pools: 'without an IPv6 pool', podCIDRs: ['10.231.17.0/24'] },
  { pools: 'with an IPv6 pool', podCIDRs: ['10.231.17.0/24', 'fd00:231:17::/64'] },
] as const;

const port = 9000;

interface Link {
  readonly ifname: string;
  readonly address: string;
  readonly addr_info: readonly { readonly local: string; readonly scope: string }[];
}
interface Pod {
  readonly netns: string;
  readonly link: string;
  readonly linkLocal: string;
  readonly ips: readonly string[];
  /** The host end of the veth pair. */
  readonly host: Link;
}

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else {
  ip('link', 'set', 'lo', 'up');
  describe('packets of a pod to its node', () => {
    let fixture: CalicoFixture;
    const sockets: Socket[] = [];
    afterEach(async () => {
      for (const socket of sockets.splice(0)) socket.close();
      await fixture.dispose();
    });
    async function listen(socket: Socket, address: string) {
      sockets.push(socket);
      const received: string[] = [];
      socket.on('message', (text) => received.push(String(text)));
      socket.bind(port, address);
      await once(socket, 'listening');
      const until = async (text: string) => {
        while (!received.includes(text)) await once(socket, 'message');
      };
      return { socket, received, until };
    }

    const linksOf = (...command: string[]): readonly Link[] =>
      JSON.parse(execFileSync(command[0] ?? '', command.slice(1), { encoding: 'utf8' })) as readonly Link[];
    const linkLocalOf = (link: Link | undefined) =>
      link?.addr_info.find(({ scope, local }) => scope === 'link' && local.includes(':'))?.local;

    async function attach(name: string): Promise<Pod> {
      const { path: netns } = await fixture.newNetns();
      // a pod without IPv6 addresses can have link-local ones: it has them, or a program with raw sockets makes them up
      execFileSync('nsenter', [`--net=${netns}`, 'sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0']);
      const known = new Set(linksOf('ip', '-j', 'addr').map(({ ifname }) => ifname));
      const pod = { namespace: 'a', name, uid: name };
      const { ips } = await fixture.driver.add({ containerId: name, ifName: 'eth0', netns, pod, portMappings: [] });
      const host = linksOf('ip', '-j', 'addr').find(({ ifname }) => !known.has(ifname));
      const [inside] = linksOf('nsenter', `--net=${netns}`, 'ip', '-j', 'addr', 'show', 'dev', 'eth0');
      if (host === undefined || inside === undefined) throw new Error('the pod has no interface');
      return { netns, link: inside.address, linkLocal: linkLocalOf(inside) ?? 'fe80::abcd', ips, host };
    }
    const open = async (podCIDRs: readonly string[]) => {
      for (const scope of ['all', 'default']) await writeFile(`/proc/sys/net/ipv6/conf/${scope}/accept_dad`, '0');
      fixture = await openCalico({ node: { podCIDRs: [...podCIDRs], clusterCIDRs: [...podCIDRs] } });
      await fixture.driver.setup(fixture.node);
    };

    describe.each(ranges)('$pools', ({ podCIDRs }) => {
      it.each(['1', '2'])('add no default route with a router advertisement (accept_ra %s)', async (acceptance) => {
        await writeFile('/proc/sys/net/ipv6/conf/default/accept_ra', acceptance);
        await open(podCIDRs);
        const pod = await attach('bad');
        sendFrame(pod.netns, routerAdvertisement(pod.link, pod.linkLocal));
        expect(execFileSync('ip', ['-6', 'route', 'show', 'default'], { encoding: 'utf8' })).toBe('');
      });

      it('do not arrive from or at link-local addresses', async () => {
        await open(podCIDRs);
        const pod = await attach('bad');
        const node = await listen(createSocket({ type: 'udp6', ipv6Only: true }), '::');
        const { address: link, ifname } = pod.host;
        const hostAddress = linkLocalOf(linksOf('ip', '-j', 'addr', 'show', 'dev', ifname)[0]) ?? 'fe80::1';
        const groups = { link: '33:33:00:00:00:01', address: 'ff02::1', port };
        for (const to of [{ link, address: hostAddress, port }, groups])
          for (const address of [pod.linkLocal, 'fe80::abcd', 'fd00:231:99::9'])
            sendFrame(pod.netns, datagram({ from: { link: pod.link, address, port: 5000 }, to, text: `from ${address} to ${to.address}` }));
        const last = createSocket('udp6');
        last.send('end', port, '::1', () => last.close());
        await node.until('end');
        expect(node.received).toEqual(['end']);
      });
    });

    it('do not reach a connected socket of the node with the address of its peer', async () => {
      await open(['10.231.17.0/24']);
      const [good, bad] = [await attach('good'), await attach('bad')];
      ip('addr', 'replace', '192.0.2.1/32', 'dev', 'lo');
      const node = await listen(createSocket('udp4'), '192.0.2.1');
      await new Promise<void>((resolve) => node.socket.connect(53, good.ips[0], resolve));
      const sent = (pod: Pod, text: string) =>
        sendFrame(
          pod.netns,
          datagram({
            from: { link: pod.link, address: good.ips[0] ?? '', port: 53 },
            to: { link: pod.host.address, address: '192.0.2.1', port },
            text,
          }),
        );
      sent(good, 'first');
      await node.until('first');
      sent(bad, 'forged');
      sent(good, 'end');
      await node.until('end');
      expect(node.received).toEqual(['first', 'end']);
    });
  });
}
