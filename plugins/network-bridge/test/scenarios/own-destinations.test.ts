import { execFileSync } from 'node:child_process';
import { listenForDatagrams } from '@oarlock/testing/network/datagram-listener';
import { datagram, sendFrame } from '@oarlock/testing/network/frames';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBridge, type BridgeFixture } from '../support/bridge-fixture.ts';

const networks = [
  {
    family: 4,
    range: '10.231.27.0/24',
    service: '10.96.0.7',
    attacks: [
      ['the limited broadcast address', 'ff:ff:ff:ff:ff:ff', '255.255.255.255'],
      ['the broadcast address of the range', 'ff:ff:ff:ff:ff:ff', '10.231.27.255'],
      ['a broadcast address in a frame for one pod', undefined, '255.255.255.255'],
      ['all systems', '01:00:5e:00:00:01', '224.0.0.1'],
      ['a multicast group', '01:00:5e:01:02:03', '239.1.2.3'],
      ['a multicast group in a frame for one pod', undefined, '239.1.2.3'],
    ],
  },
  {
    family: 6,
    range: 'fd00:231:27::/64',
    service: 'fd00:96::7',
    attacks: [
      ['all nodes', '33:33:00:00:00:01', 'ff02::1'],
      ['all nodes in a frame for one pod', undefined, 'ff02::1'],
      ['a multicast group', '33:33:00:01:00:03', 'ff05::1:3'],
      ['the subnet router anycast address in a frame for one pod', undefined, 'fd00:231:27::'],
    ],
  },
] as const;

interface Pod {
  readonly netns: string;
  readonly address: string;
  readonly link: string;
}

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe.each(networks)('frames between pods over IPv$family', ({ family, range, service, attacks }) => {
    let fixture: BridgeFixture;
    let [sender, target]: Pod[] = [];
    beforeEach(async () => {
      fixture = await openBridge();
      await fixture.driver.setup({ ...fixture.node, podCIDRs: [range], clusterCIDRs: [range] });
      [sender, target] = [await attach('sender'), await attach('target')];
      enter(target, 'sysctl', '-qw', 'net.ipv6.conf.all.forwarding=1'); // for the anycast address of routers (RFC 4291, section 2.6.1)
    });
    afterEach(() => fixture.dispose());

    const enter = ({ netns }: Pick<Pod, 'netns'>, ...command: string[]) =>
      execFileSync('nsenter', [`--net=${netns}`, ...command], { encoding: 'utf8' });
    async function attach(name: string): Promise<Pod> {
      const { path: netns } = await fixture.newNetns();
      enter({ netns }, 'sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0');
      const pod = { namespace: 'a', name, uid: name };
      const { ips } = await fixture.driver.add({ containerId: name, ifName: 'eth0', netns, pod, portMappings: [] });
      const [link] = JSON.parse(enter({ netns }, 'ip', '-j', 'link', 'show', 'dev', 'eth0')) as readonly { readonly address: string }[];
      return { netns, address: ips[0] ?? '', link: link?.address ?? '' };
    }
    /** Listens in the target. Returns a function that sends the message `end` and returns the output. */
    async function listen(end = () => send('end', target?.link ?? '', target?.address ?? '')): Promise<() => Promise<string>> {
      const output = await listenForDatagrams(target?.netns ?? '', family);
      return async () => {
        end();
        return output();
      };
    }
    const send = (text: string, link: string, address: string, vlan?: number) => {
      const from = { link: sender?.link ?? '', address: sender?.address ?? '', port: 5000 };
      sendFrame(sender?.netns ?? '', datagram({ from, to: { link, address, port: 9000 }, text, ...(vlan !== undefined && { vlan }) }));
    };

    it('arrive only with the link and network address of the receiver', async () => {
      const output = await listen();
      for (const [name, link, address] of attacks) send(name, link ?? target?.link ?? '', address);
      expect(await output()).toBe('ready\nend\n');
    });

    it('do not arrive with a VLAN tag, with which they pass no policy', async () => {
      const output = await listen();
      for (const vlan of [0, 1]) send(`vlan ${vlan}`, target?.link ?? '', target?.address ?? '', vlan);
      expect(await output()).toBe('ready\nend\n');
    });

    it('arrive through a Service whose address the node translates', async () => {
      const rule = `table inet service {\n chain translation {\n type nat hook prerouting priority dstnat;\n ${family === 4 ? 'ip' : 'ip6'} daddr ${service} dnat to ${target?.address}\n }\n}\n`;
      execFileSync('nft', ['-f', '-'], { input: rule });
      const program = (text: string) =>
        `const s = require('node:dgram').createSocket('udp${family}'); s.send('${text}', 9000, '${service}', () => s.close());`;
      const sendToService = (text: string) => enter({ netns: sender?.netns ?? '' }, process.execPath, '-e', program(text));
      const output = await listen(() => sendToService('end'));
      sendToService('to the Service');
      expect(await output()).toBe('ready\nto the Service\nend\n');
      execFileSync('nft', ['delete', 'table', 'inet', 'service']);
    });
  });
