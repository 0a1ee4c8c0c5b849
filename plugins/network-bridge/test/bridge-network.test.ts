import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ledgerFile } from '@oarlock/network-cni/cni/conflist';
import type { Attachment } from '@oarlock/spi/network';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBridge, whyNot, type BridgeFixture } from './support/bridge-fixture.ts';

const run = promisify(execFile);
const unavailable = await whyNot();

describe.skipIf(unavailable !== undefined)(
  `network-bridge on this machine${unavailable === undefined ? '' : ` (${unavailable})`}`,
  { timeout: 300_000 },
  () => {
    let fixture: BridgeFixture;
    beforeEach(async () => {
      fixture = await openBridge({ bandwidth: 'auto' });
    });
    afterEach(() => fixture.dispose());

    const attach = async (containerId: string, more: Partial<Attachment> = {}): Promise<Attachment> => {
      const { path } = await fixture.newNetns();
      return {
        containerId,
        ifName: 'eth0',
        netns: path,
        pod: { namespace: 'shop', name: containerId, uid: `uid-${containerId}` },
        portMappings: [],
        ...more,
      };
    };
    const inside = async ({ netns = '' }: Attachment, ...command: string[]) =>
      (await run('nsenter', [`--net=${netns}`, ...command])).stdout;

    it('writes the conflist for runtimes that call CNI themselves', async () => {
      const { driver, directory, bridge, node } = fixture;
      await driver.setup({ ...node, mtu: 1400 });
      const path = join(directory, 'net.d', '10-oarlock.conflist');
      const list = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>;
      expect(list).toMatchObject({
        cniVersion: '1.0.0',
        name: bridge,
        plugins: [
          {
            type: 'bridge',
            bridge,
            isGateway: true,
            hairpinMode: true,
            ipMasq: false,
            mtu: 1400,
            ipam: {
              type: 'host-local',
              ranges: [[{ subnet: node.podCIDRs[0] }]],
              routes: [{ dst: '0.0.0.0/0' }],
              dataDir: join(directory, 'data', 'ipam'),
            },
          },
          { type: 'portmap', capabilities: { portMappings: true } },
          { type: 'bandwidth', capabilities: { bandwidth: true } },
        ],
      });
      expect(await readdir(join(directory, 'net.d'))).toEqual([
        expect.stringMatching(/^\.oarlock-owner-/),
        ledgerFile,
        '10-oarlock.conflist',
      ]);
      const conflist = (await stat(path)).ino;
      await driver.setup({ ...node, mtu: 1400 });
      expect((await stat(path)).ino).toBe(conflist);
      await writeFile(join(directory, 'net.d', '05-other.conflist'), '{}');
      expect((await driver.status()).message).toContain('05-other.conflist');
    });

    it('connects pods with each other and with their gateway, and brings loopback up', async () => {
      await fixture.driver.setup(fixture.node);
      const [one, two] = [await attach('one'), await attach('two')];
      const [first, second] = [await fixture.driver.add(one), await fixture.driver.add(two)];
      expect(await inside(one, 'ip', '-o', 'link', 'show', 'dev', 'lo')).toContain('LOOPBACK,UP');
      const listening = spawn(
        'nsenter',
        [
          `--net=${two.netns}`,
          process.execPath,
          '-e',
          'require("net").createServer((s) => s.end(s.remoteAddress)).listen(8080, "0.0.0.0", () => console.log("up"))',
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      await once(listening.stdout, 'data');
      expect(await inside(one, process.execPath, '-e', `require('net').connect(8080, '${second.ips[0]}').pipe(process.stdout)`)).toBe(
        first.ips[0],
      );
      listening.kill();
      const server = createServer((socket) => socket.end('from the node'));
      const port = await new Promise<number>((resolve) => {
        server.listen(0, first.gateway, () => resolve((server.address() as { port: number }).port));
      });
      expect(await inside(two, process.execPath, '-e', `require('net').connect(${port}, '${first.gateway}').pipe(process.stdout)`)).toBe(
        'from the node',
      );
      server.close();
      expect(await inside(one, 'ip', '-o', '-4', 'route', 'show', 'default')).toContain(first.gateway);
    });

    it('masquerades with one rule for the node and none per pod', async () => {
      await fixture.driver.setup(fixture.node);
      const pod = await attach('one');
      await fixture.driver.add(pod);
      const { stdout } = await run('nft', ['list', 'table', 'inet', `oarlock-${fixture.bridge}`]);
      expect(stdout).toContain(`ip saddr ${fixture.node.podCIDRs[0]}`);
      expect(stdout).toContain(`ip daddr != ${fixture.node.clusterCIDRs[0]}`);
      expect((await run('iptables-save', ['-t', 'nat'])).stdout).not.toContain(fixture.bridge);
      expect((await readFile('/proc/sys/net/ipv4/ip_forward', 'utf8')).trim()).toBe('1');
    });

    it('adds FORWARD rules for its packets if other programs have rules there', async () => {
      const foreign = ['FORWARD', '-m', 'comment', '--comment', `test of ${fixture.bridge}`];
      const ours = async () =>
        (await run('iptables', ['-S', 'FORWARD'])).stdout.split('\n').filter((line) => line.includes(`oarlock ${fixture.bridge}`));
      await run('iptables', ['-w', '5', '-A', ...foreign]);
      try {
        await fixture.driver.setup(fixture.node);
        const once = await ours();
        await fixture.driver.setup(fixture.node);
        expect(once).toHaveLength(2);
        expect(await ours()).toEqual(once);
      } finally {
        await run('iptables', ['-w', '5', '-D', ...foreign]);
      }
    });

    it('maps host ports and limits bandwidth until the pod is deleted, with named and unnamed namespaces', async () => {
      await fixture.driver.setup(fixture.node);
      const pod = await attach('ports', {
        portMappings: [{ protocol: 'TCP', containerPort: 80, hostPort: 38_080 }],
        bandwidth: { ingressBits: 8_000_000, egressBits: 8_000_000 },
      });
      const { ips } = await fixture.driver.add(pod);
      const rules = async () => (await run('iptables-save', ['-t', 'nat'])).stdout;
      expect(await rules()).toContain(`--to-destination ${ips[0]}:80`);
      const veth = (await run('ip', ['-o', 'link', 'show', 'master', fixture.bridge])).stdout;
      expect(veth).toContain('qdisc tbf');
      await fixture.driver.check(pod);
      await run('ip', ['netns', 'del', (pod.netns ?? '').slice('/run/netns/'.length)]).catch(() => undefined);
      await fixture.driver.del(pod);
      expect(await rules()).not.toContain(`--to-destination ${ips[0]}:80`);
      await run('ip', ['netns', 'add', (pod.netns ?? '').slice('/run/netns/'.length)]); // the fixture removes it
    });

    it('applies a new pod CIDR of the node', async () => {
      await fixture.driver.setup(fixture.node);
      const before = await attach('before');
      await fixture.driver.add(before);
      const other = fixture.node.podCIDRs[0]?.replace(/\.0\/24$/, '.128/25').replace(/^10\.(\d+)/, '10.199') ?? '';
      await fixture.driver.setup({ ...fixture.node, podCIDRs: [other] });
      const after = await attach('after');
      expect((await fixture.driver.add(after)).ips[0]).toMatch(/^10\.199\./);
      await fixture.driver.del(before);
      await fixture.driver.del(after);
    });

    it('keeps recent addresses of other runtimes and releases old ones', async () => {
      const { driver, directory, bridge, node } = fixture;
      await driver.setup(node);
      await driver.add(await attach('mine'));
      const ipam = join(directory, 'data', 'ipam', bridge);
      const foreign = async (address: string, containerId: string, ageSeconds: number) => {
        await writeFile(join(ipam, address), `${containerId}\r\neth0`);
        const at = Date.now() / 1000 - ageSeconds;
        await utimes(join(ipam, address), at, at);
      };
      const base = node.podCIDRs[0]?.replace(/\.0\/24$/, '') ?? '';
      await foreign(`${base}.50`, 'fresh', 10);
      await foreign(`${base}.51`, 'stale', 1000);
      await foreign(`${base}.52`, 'held', 1000);
      await driver.gc([
        { containerId: 'mine', ifName: 'eth0' },
        { containerId: 'held', ifName: 'eth0' },
      ]);
      expect((await readdir(ipam)).filter((name) => name.startsWith(base)).sort()).toEqual([`${base}.2`, `${base}.50`, `${base}.52`]);
    });

    it('continues after a power failure truncated a record', async () => {
      await fixture.driver.setup(fixture.node);
      await fixture.driver.add(await attach('one'));
      await writeFile(join(fixture.directory, 'data', 'attachments', 'one~eth0'), '{"attach');
      const again = await fixture.restart();
      await again.setup(fixture.node);
      await expect(again.check(await attach('one'))).rejects.toMatchObject({ code: 'Broken' });
      expect((await again.add(await attach('two'))).ips[0]).toMatch(/\.3$/);
    });

    it('rejects a sandbox without a namespace, a second namespace, and a node without a pod CIDR', async () => {
      await expect(fixture.driver.setup({ ...fixture.node, podCIDRs: [] })).rejects.toMatchObject({ code: 'InvalidConfig' });
      await expect(fixture.driver.setup({ ...fixture.node, podCIDRs: ['10.0.0.0/33'] })).rejects.toMatchObject({ code: 'InvalidConfig' });
      await fixture.driver.setup(fixture.node);
      const { netns: _, ...bare } = await attach('bare');
      await expect(fixture.driver.add(bare)).rejects.toMatchObject({ code: 'InvalidConfig' });
      const one = await attach('one');
      await fixture.driver.add(one);
      const { path } = await fixture.newNetns();
      await expect(fixture.driver.add({ ...one, netns: path })).rejects.toMatchObject({ code: 'Broken' });
      await expect(
        fixture.driver.add(await attach('two', { pod: { namespace: 'a;K8S_POD_NAME=b', name: 'x', uid: 'y' } })),
      ).rejects.toMatchObject({ code: 'InvalidConfig' });
    });
  },
);
