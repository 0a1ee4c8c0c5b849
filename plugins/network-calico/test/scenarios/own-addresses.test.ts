import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, describe, expect, it } from 'vitest';
import { openCalico, type CalicoFixture } from '../support/calico-fixture.ts';

/** Prints that it listens, and then the first message. */
const listener = (family: 4 | 6) => `
  const socket = require('node:dgram').createSocket('udp${family}');
  socket.on('message', (text, { address }) => { console.log(address + ' ' + text); process.exit(0); });
  socket.bind(9000, () => console.log('ready'));`;
const sender = (family: 4 | 6, from: string, to: string, text: string) => `
  const socket = require('node:dgram').createSocket('udp${family}');
  socket.bind(0, '${from}', () => socket.send('${text}', 9000, '${to}', () => socket.close()));`;

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('packets with a spoofed source address', () => {
    let fixture: CalicoFixture | undefined;
    afterEach(() => fixture?.dispose());

    it.each([
      { family: 4, by: 'rp_filter', filter: '0', range: '10.231.7.0/24' },
      { family: 4, by: 'rp_filter, with a loose default of the node,', filter: '2', range: '10.231.8.0/24' },
      { family: 6, by: 'an nftables rule', filter: '0', range: 'fd00:231:9::/64' },
    ] as const)('are dropped by $by over IPv$family', async ({ family, filter, range }) => {
      await writeFile('/proc/sys/net/ipv4/conf/all/rp_filter', filter);
      fixture = await openCalico({ node: { podCIDRs: [range], clusterCIDRs: [range] } });
      const { driver, node, newNetns } = fixture;
      await driver.setup(node);
      const add = async (name: string) => {
        const { path: netns } = await newNetns();
        const { ips } = await driver.add({
          containerId: name,
          ifName: 'eth0',
          netns,
          pod: { namespace: 'a', name, uid: name },
          portMappings: [],
        });
        const enter = [`--net=${netns}`, process.execPath, '-e'];
        return { netns, ip: ips[0] ?? '', enter };
      };
      const [good, bad, target] = [await add('good'), await add('bad'), await add('target')];
      const { ofNode, ofService } =
        family === 4 ? { ofNode: '192.0.2.1', ofService: '10.96.0.1' } : { ofNode: '2001:db8::1', ofService: 'fd00:96::1' };
      const addition = (address: string, device: string) => [
        'addr',
        'replace',
        ...(family === 4 ? [`${address}/32`] : [`${address}/128`, 'nodad']),
        'dev',
        device,
      ];
      ip(...addition(ofNode, 'lo'));
      const forgeries = [good.ip, ofNode, ofService];
      for (const address of forgeries) execFileSync('nsenter', [`--net=${bad.netns}`, 'ip', ...addition(address, 'eth0')]);
      const child = spawn('nsenter', [...target.enter, listener(family)], { stdio: ['ignore', 'pipe', 'inherit'] });
      const received: string[] = [];
      child.stdout.setEncoding('utf8').on('data', (text: string) => received.push(text));
      await once(child.stdout, 'data');
      const send = ({ enter }: typeof bad, from: string, text: string) =>
        execFileSync('nsenter', [...enter, sender(family, from, target.ip, text)]);
      for (const address of forgeries) send(bad, address, 'forged');
      send(good, good.ip, 'honest');
      await once(child, 'close');
      expect(received.join('')).toBe(`ready\n${good.ip} honest\n`);
    });
  });
