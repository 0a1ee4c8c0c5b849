import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, describe, expect, it } from 'vitest';
import { openCalico, type CalicoFixture } from '../support/calico-fixture.ts';

const run = promisify(execFile);
const listener = "require('net').createServer((socket) => socket.end('here')).listen(8080, () => console.log('ready'))";
const caller = (to: string) =>
  `const s = require('net').connect({ port: 8080, host: '${to}' }).setTimeout(1000, () => s.destroy()); s.on('error', () => {}).pipe(process.stdout)`;

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else {
  ip('link', 'set', 'lo', 'up');
  describe('firewall that drops forwarded packets', () => {
    const iptables = (...args: string[]) => execFileSync('iptables', ['-w', '5', ...args]);
    let fixture: CalicoFixture | undefined;
    afterEach(async () => {
      iptables('-P', 'FORWARD', 'ACCEPT');
      await fixture?.dispose();
    });

    it('does not block existing pods when it is loaded later', async () => {
      fixture = await openCalico();
      const { driver, node, newNetns } = fixture;
      await driver.setup(node);
      const add = async (name: string) => {
        const { path: netns } = await newNetns();
        const pod = { namespace: 'd', name, uid: name };
        const { ips } = await driver.add({ containerId: name, ifName: 'eth0', netns, pod, portMappings: [] });
        return { ip: ips[0] ?? '', enter: [`--net=${netns}`, process.execPath, '-e'] };
      };
      const [one, two] = [await add('one'), await add('two')];
      const server = spawn('nsenter', [...two.enter, listener], { stdio: ['ignore', 'pipe', 'inherit'] });
      try {
        await once(server.stdout, 'data');
        const received = async () => (await run('nsenter', [...one.enter, caller(two.ip)])).stdout;
        expect(await received()).toBe('here');
        iptables('-P', 'FORWARD', 'DROP');
        await expect.poll(received).toBe('here');
      } finally {
        server.kill();
        await once(server, 'exit');
      }
    });
  });
}
