import { execFileSync } from 'node:child_process';
import { listenForDatagrams } from '@oarlock/testing/network/datagram-listener';
import { datagram, sendFrame } from '@oarlock/testing/network/frames';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openCalico, type CalicoFixture } from '../support/calico-fixture.ts';

/** The addresses of the attacks, with the link address of frames to groups: each is also sent in a frame for the node. */
const networks = [
  {
    family: 4,
    range: '10.231.17.0/24',
    groups: [
      ['255.255.255.255', 'ff:ff:ff:ff:ff:ff'],
      ['10.231.17.255', 'ff:ff:ff:ff:ff:ff'],
      ['224.0.0.1', '01:00:5e:00:00:01'],
      ['239.1.2.3', '01:00:5e:01:02:03'],
    ],
  },
  {
    family: 6,
    range: 'fd00:231:17::/64',
    groups: [
      ['ff02::1', '33:33:00:00:00:01'],
      ['ff05::1:3', '33:33:00:01:00:03'],
      ['ff0e::1:3', '33:33:00:01:00:03'],
      ['fd00:231:17::', '33:33:00:00:00:01'],
    ],
  },
] as const;

interface Pod {
  readonly netns: string;
  readonly address: string;
  readonly link: string;
}

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else {
  ip('link', 'set', 'lo', 'up');
  describe.each(networks)('broadcasts and multicasts of a pod over IPv$family', ({ family, range, groups }) => {
    const node = 'ee:ee:ee:ee:ee:ee';
    let fixture: CalicoFixture;
    beforeEach(async () => {
      const ranges = family === 4 ? [range] : ['10.231.17.0/24', range];
      fixture = await openCalico({ node: { podCIDRs: ranges, clusterCIDRs: ranges } });
      await fixture.driver.setup(fixture.node);
    });
    afterEach(() => fixture.dispose());

    async function attach(name: string): Promise<Pod> {
      const { path: netns } = await fixture.newNetns();
      const enter = (...command: string[]) => execFileSync('nsenter', [`--net=${netns}`, ...command], { encoding: 'utf8' });
      enter('sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0');
      const pod = { namespace: 'a', name, uid: name };
      const { ips } = await fixture.driver.add({ containerId: name, ifName: 'eth0', netns, pod, portMappings: [] });
      const [link] = JSON.parse(enter('ip', '-j', 'link', 'show', 'dev', 'eth0')) as readonly { readonly address: string }[];
      return { netns, address: ips.find((each) => each.includes(':') === (family === 6)) ?? '', link: link?.address ?? '' };
    }

    it('do not arrive at another pod of the node', async () => {
      const [sender, target] = [await attach('sender'), await attach('target')];
      const output = await listenForDatagrams(target.netns, family);
      const send = (text: string, link: string, address: string) => {
        const from = { link: sender.link, address: sender.address, port: 5000 };
        sendFrame(sender.netns, datagram({ from, to: { link, address, port: 9000 }, text }));
      };
      for (const [address, link] of groups) for (const each of [link, node]) send(`${address} in a frame to ${each}`, each, address);
      // the node forwards no packet from a frame for a group (RFC 1812, section 5.3.4)
      for (const [, link] of groups) send(`the address of the pod in a frame to ${link}`, link, target.address);
      send('end', node, target.address);
      expect(await output()).toBe('ready\nend\n');
    });
  });
}
