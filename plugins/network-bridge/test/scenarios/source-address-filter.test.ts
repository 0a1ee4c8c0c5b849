import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CniChain } from '@oarlock/network-cni/cni/chain';
import { CniPlugins } from '@oarlock/network-cni/cni/plugins';
import type { NetworkList } from '@oarlock/network-cni/cni/protocol';
import { systemClock } from '@oarlock/primitives/clock';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBridge, type BridgeFixture } from '../support/bridge-fixture.ts';
import { arpReply, neighborAdvertisement, sendFrame } from '@oarlock/testing/network/frames';

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
  readonly address: string;
  readonly link: string;
  readonly linkLocal: string;
}
const ranges = [
  { family: 4, range: '10.231.7.0/24' },
  { family: 6, range: 'fd00:231:9::/64' },
] as const;

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('source address filter', () => {
    let fixture: BridgeFixture;
    beforeEach(async () => {
      fixture = await openBridge();
    });
    afterEach(() => fixture.dispose());

    const attachment = (name: string, netns: string) => ({
      containerId: name,
      ifName: 'eth0',
      netns,
      pod: { namespace: 'a', name, uid: name },
      portMappings: [],
    });
    const enter = ({ netns }: Pick<Pod, 'netns'>, ...command: string[]) =>
      execFileSync('nsenter', [`--net=${netns}`, ...command], { encoding: 'utf8' });
    function podOf(netns: string, address = ''): Pod {
      type Link = { readonly address: string; readonly addr_info: readonly { readonly local: string; readonly scope: string }[] };
      const [link] = JSON.parse(enter({ netns }, 'ip', '-j', 'addr', 'show', 'dev', 'eth0')) as readonly Link[];
      return { netns, address, link: link?.address ?? '', linkLocal: link?.addr_info.find(({ scope }) => scope === 'link')?.local ?? '' };
    }
    const attach = async (name: string): Promise<Pod> => {
      const { path: netns } = await fixture.newNetns();
      enter({ netns }, 'sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0');
      return podOf(netns, (await fixture.driver.add(attachment(name, netns))).ips[0]);
    };
    /** Attaches a pod as a container runtime does: with the conflist, and with the result in the cache of libcni. */
    const attachByRuntime = async (name: string): Promise<Pod> => {
      const { path: netns } = await fixture.newNetns();
      const list = JSON.parse(await readFile(join(fixture.directory, 'net.d', '10-oarlock.conflist'), 'utf8')) as NetworkList;
      const result = await new CniChain(new CniPlugins(systemClock, ['/opt/cni/bin', '/usr/lib/cni'], 60_000)).add(
        list,
        attachment(name, netns),
      );
      const cniCacheDir = join(fixture.directory, 'cni-cache');
      await mkdir(join(cniCacheDir, 'results'), { recursive: true });
      await writeFile(join(cniCacheDir, 'results', `${list.name}-${name}-eth0`), JSON.stringify({ kind: 'cniCacheV1', result }));
      return podOf(netns, result.ips[0]?.address.split('/')[0]);
    };
    const threePods = async (range: string): Promise<readonly [good: Pod, bad: Pod, target: Pod]> => {
      await fixture.driver.setup({ ...fixture.node, podCIDRs: [range], clusterCIDRs: [range] });
      return [await attach('good'), await attach('bad'), await attach('target')];
    };
    /** Gives a pod the address of another, as a program with raw sockets does for its packets. */
    const forge = (pod: Pod, address: string) =>
      enter(pod, 'ip', 'addr', 'add', ...(address.includes(':') ? [`${address}/128`, 'nodad'] : [`${address}/32`]), 'dev', 'eth0');
    const send = (pod: Pod, from: string, to: string, text: string) => enter(pod, process.execPath, '-e', sender(from, to, text));
    const elements = () =>
      execFileSync('nft', ['list', 'table', 'bridge', `oarlock-${fixture.bridge}`], { encoding: 'utf8', stdio: 'pipe' });

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

    it.each(ranges)('drops packets with the address of another pod over IPv$family, also after a restart', async ({ range }) => {
      const [good, bad, target] = await threePods(range);
      const output = await listen(target);
      send(bad, bad.address, target.address, 'own');
      forge(bad, good.address);
      send(bad, good.address, target.address, 'forged');
      await (await fixture.restart()).setup({ ...fixture.node, podCIDRs: [range], clusterCIDRs: [range] });
      send(bad, good.address, target.address, 'forged');
      send(good, good.address, target.address, 'end');
      expect(await output()).toBe(`ready\n${bad.address} own\n${good.address} end\n`);
    });

    it.each(ranges)('drops packets with the link address of another pod over IPv$family', async ({ range }) => {
      const [good, bad, target] = await threePods(range);
      const output = await listen(target);
      send(good, good.address, target.address, 'first');
      enter(bad, 'ip', 'link', 'set', 'dev', 'eth0', 'address', good.link);
      send(bad, bad.address, target.address, 'forged');
      send(good, good.address, target.address, 'end');
      expect(await output()).toBe(`ready\n${good.address} first\n${good.address} end\n`);
    });

    it.each([
      {
        claim: 'an ARP request',
        range: ranges[0].range,
        attack: (good: Pod, bad: Pod, target: Pod) => {
          forge(bad, good.address);
          send(bad, good.address, target.address, 'forged');
        },
      },
      {
        claim: 'an ARP reply',
        range: ranges[0].range,
        attack: (good: Pod, bad: Pod, target: Pod) => sendFrame(bad.netns, arpReply({ ...bad, address: good.address, to: target })),
      },
      {
        claim: 'a neighbor advertisement',
        range: ranges[1].range,
        attack: (good: Pod, bad: Pod, target: Pod) =>
          sendFrame(bad.netns, neighborAdvertisement({ ...bad, address: good.address, to: target }, bad.address)),
      },
      {
        claim: 'a neighbor advertisement from a link-local address',
        range: ranges[1].range,
        attack: (good: Pod, bad: Pod, target: Pod) =>
          sendFrame(bad.netns, neighborAdvertisement({ ...bad, address: good.address, to: target }, bad.linkLocal)),
      },
    ])('drops $claim for the address of another pod', async ({ range, attack }) => {
      const [good, bad, target] = await threePods(range);
      const output = await listen(target);
      send(good, good.address, target.address, 'before');
      send(target, target.address, good.address, 'resolves the address');
      attack(good, bad, target);
      send(good, good.address, target.address, 'end');
      expect(await output()).toBe(`ready\n${good.address} before\n${good.address} end\n`);
      expect(enter(target, 'ip', 'neigh', 'show', good.address)).toContain(good.link);
    });

    it('accepts a neighbor advertisement for the address of the pod itself', async () => {
      const [, bad, target] = await threePods(ranges[1].range);
      send(target, target.address, bad.address, 'resolves the address');
      enter(target, 'ip', 'neigh', 'replace', bad.address, 'lladdr', '02:00:00:00:00:01', 'nud', 'stale', 'dev', 'eth0');
      sendFrame(bad.netns, neighborAdvertisement({ ...bad, to: target }, bad.linkLocal));
      expect(enter(target, 'ip', 'neigh', 'show', bad.address)).toContain(bad.link);
    });

    it('drops packets from and to link-local addresses, which network policies do not know', async () => {
      const [good, bad, target] = await threePods(ranges[1].range);
      const output = await listen(target);
      send(bad, `${bad.linkLocal}%eth0`, `${target.linkLocal}%eth0`, 'link-local');
      send(bad, bad.address, `${target.linkLocal}%eth0`, 'to link-local');
      send(bad, `${bad.linkLocal}%eth0`, target.address, 'from link-local');
      send(good, good.address, target.address, 'end');
      expect(await output()).toBe(`ready\n${good.address} end\n`);
    });

    it('removes the addresses with the pod', async () => {
      await fixture.driver.setup(fixture.node);
      const { netns } = await attach('a');
      expect(elements()).toContain('elements = ');
      await fixture.driver.del(attachment('a', netns));
      expect(elements()).not.toContain('elements = ');
    });

    describe('for pods that a container runtime attaches', () => {
      const key = (containerId: string) => ({ containerId, ifName: 'eth0' });

      it('drops packets with the address of another pod, also after a restart', async () => {
        await fixture.driver.setup(fixture.node);
        const [good, bad, target] = [await attachByRuntime('good'), await attachByRuntime('bad'), await attachByRuntime('target')];
        for (const name of ['good', 'bad', 'target']) await fixture.driver.adopt(key(name));
        const output = await listen(target);
        send(bad, bad.address, target.address, 'own');
        forge(bad, good.address);
        send(bad, good.address, target.address, 'forged');
        await (await fixture.restart()).setup(fixture.node);
        send(bad, good.address, target.address, 'forged');
        send(good, good.address, target.address, 'end');
        expect(await output()).toBe(`ready\n${bad.address} own\n${good.address} end\n`);
      });

      it('removes the addresses of pods that no longer exist when the next pod starts', async () => {
        await fixture.driver.setup(fixture.node);
        const [first, second] = [await attachByRuntime('first'), await attachByRuntime('second')];
        await fixture.driver.adopt(key('first'));
        enter(first, 'ip', 'link', 'del', 'dev', 'eth0');
        await fixture.driver.adopt(key('second'));
        expect([elements().includes(first.address), elements().includes(second.address)]).toEqual([false, true]);
      });

      it('rejects a pod without a CNI result, and names the setting', async () => {
        await fixture.driver.setup(fixture.node);
        await expect(fixture.driver.adopt(key('unknown'))).rejects.toThrow(/no CNI result of sandbox unknown in .*: set cniCacheDir/);
        await expect(fixture.driver.adopt(key('../unknown'))).rejects.toThrow('invalid container id');
      });
    });

    it('can be turned off', async () => {
      await fixture.driver.setup(fixture.node);
      await (await fixture.restart({ sourceAddressFilter: false })).setup(fixture.node);
      expect(elements).toThrow('No such file or directory');
    });
  });
