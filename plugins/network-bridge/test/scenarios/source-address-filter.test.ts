import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBridge, type BridgeFixture } from '../support/bridge-fixture.ts';

/** Prints that it listens, and each message until `end`. */
const listener = `
  const socket = require('node:dgram').createSocket({ type: 'udp6', ipv6Only: false });
  socket.on('message', (text, { address }) => { console.log(address.replace('::ffff:', '') + ' ' + text); if (String(text) === 'end') process.exit(0); });
  socket.bind(9000, '::', () => console.log('ready'));`;
const sender = (from: string, to: string, text: string) => `
  const socket = require('node:dgram').createSocket('udp${from.includes(':') ? 6 : 4}');
  socket.bind(0, '${from}', () => socket.send('${text}', 9000, '${to}', () => socket.close()));`;

interface Pod {
  readonly netns: string;
  readonly ips: readonly string[];
}

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('packets of a pod with the address of another', () => {
    let fixture: BridgeFixture;
    beforeEach(async () => {
      fixture = await openBridge({ confDir: null });
    });
    afterEach(() => fixture.dispose());

    const attachment = (name: string, netns: string) => ({
      containerId: name,
      ifName: 'eth0',
      netns,
      pod: { namespace: 'a', name, uid: name },
      portMappings: [],
    });
    const attach = async (name: string): Promise<Pod> => {
      const { path: netns } = await fixture.newNetns();
      const { ips } = await fixture.driver.add(attachment(name, netns));
      return { netns, ips };
    };
    const enter = ({ netns }: Pod, ...command: string[]) => execFileSync('nsenter', [`--net=${netns}`, ...command], { encoding: 'utf8' });
    /** Gives a pod the address of another, as a program with raw sockets does for its packets. */
    const forge = (pod: Pod, address: string) =>
      enter(pod, 'ip', 'addr', 'add', ...(address.includes(':') ? [`${address}/128`, 'nodad'] : [`${address}/32`]), 'dev', 'eth0');
    const send = (pod: Pod, from: string, to: string, text: string) => enter(pod, process.execPath, '-e', sender(from, to, text));

    /** Starts to listen in a pod. Returns the output when the message `end` has arrived. */
    async function listen({ netns }: Pod): Promise<() => Promise<string>> {
      const child = spawn('nsenter', [`--net=${netns}`, process.execPath, '-e', listener], { stdio: ['ignore', 'pipe', 'inherit'] });
      const received: string[] = [];
      child.stdout.setEncoding('utf8').on('data', (text: string) => received.push(text));
      const closed = once(child, 'close');
      await once(child.stdout, 'data');
      return async () => {
        await closed;
        return received.join('');
      };
    }

    it.each([
      { family: 4, range: '10.231.7.0/24' },
      { family: 6, range: 'fd00:231:9::/64' },
    ])('are dropped over IPv$family, also after a restart', async ({ range }) => {
      const node = { ...fixture.node, podCIDRs: [range], clusterCIDRs: [range] };
      await fixture.driver.setup(node);
      const [good, bad, target] = [await attach('good'), await attach('bad'), await attach('target')];
      const [own = '', to = ''] = [good.ips[0], target.ips[0]];
      const output = await listen(target);
      send(bad, bad.ips[0] ?? '', to, 'own');
      forge(bad, own);
      send(bad, own, to, 'forged');
      await (await fixture.restart()).setup(node);
      send(bad, own, to, 'forged');
      send(good, own, to, 'end');
      expect(await output()).toBe(`ready\n${bad.ips[0]} own\n${own} end\n`);
    });

    it('include ARP requests, after which the other pod would send packets for the address to this one', async () => {
      await fixture.driver.setup(fixture.node);
      const [good, bad, target] = [await attach('good'), await attach('bad'), await attach('target')];
      const [own = '', to = ''] = [good.ips[0], target.ips[0]];
      const output = await listen(target);
      send(good, own, to, 'before');
      forge(bad, own);
      send(bad, own, to, 'forged');
      send(good, own, to, 'end');
      await output();
      const linkOf = (pod: Pod) => / link\/ether (\S+) /.exec(enter(pod, 'ip', '-o', 'link', 'show', 'dev', 'eth0'))?.[1] ?? 'no link';
      const neighbor = enter(target, 'ip', 'neigh', 'show', own);
      expect([neighbor.includes(linkOf(good)), neighbor.includes(linkOf(bad))]).toEqual([true, false]);
    });

    it('are dropped until the pod is removed, and the addresses do not remain', async () => {
      await fixture.driver.setup(fixture.node);
      const { path: netns } = await fixture.newNetns();
      await fixture.driver.add(attachment('a', netns));
      const elements = () => execFileSync('nft', ['list', 'table', 'bridge', `oarlock-${fixture.bridge}`], { encoding: 'utf8' });
      expect(elements()).toContain('elements = ');
      await fixture.driver.del(attachment('a', netns));
      expect(elements()).not.toContain('elements = ');
    });
  });
