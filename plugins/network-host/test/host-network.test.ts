import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { writeConflist } from '@oarlock/network-cni/cni/conflist';
import { Network, type Attachment, type NodeNetwork } from '@oarlock/spi/network';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AddressPool } from '../src/address-pool.ts';
import { HostNetwork } from '../src/host-network.ts';
import { loopbackRange } from '../src/loopback-range.ts';
import plugin from '../src/plugin.ts';

const node: NodeNetwork = { nodeName: 'n1', podCIDRs: [], clusterCIDRs: [], serviceCIDRs: [], nodeIPs: [] };
const attachment = (containerId: string): Attachment => ({
  containerId,
  ifName: 'eth0',
  pod: { namespace: 'd', name: containerId, uid: containerId },
  portMappings: [],
});

let dataDir = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'network-host-'));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

async function open(canBind: () => Promise<boolean> = async () => true): Promise<HostNetwork> {
  const driver = new HostNetwork(
    { podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16', confDir: join(dataDir, 'net.d'), canBind },
    { log: silentLogger, dataDir },
  );
  await driver.start();
  return driver;
}

describe('address ranges', () => {
  it("are the node's pod CIDRs if they are loopback addresses, else the configured range", async () => {
    const driver = await open();
    await driver.setup({ ...node, podCIDRs: ['10.244.3.0/24', '127.150.1.0/24'] });
    expect((await driver.add(attachment('a'))).ips).toEqual(['127.150.1.1']);
    await driver.setup({ ...node, podCIDRs: ['10.244.3.0/24'] });
    expect((await driver.add(attachment('b'))).ips).toEqual(['127.128.0.1']);
  });
  it('leaves 127.0.0.0/16 alone', async () => {
    const driver = await open();
    await expect(driver.setup({ ...node, podCIDRs: ['127.0.0.0/24'] })).rejects.toMatchObject({ code: 'InvalidConfig' });
    expect(plugin.config.safeParse({ podCIDR: '127.0.0.0/9' }).success).toBe(false);
    expect(plugin.config.safeParse({ podCIDR: '10.0.0.0/9' }).success).toBe(false);
    expect(plugin.config.safeParse({ podCIDR: '127.64.0.0/11' }).success).toBe(true);
    expect(plugin.config.safeParse({ podCidr: '127.64.0.0/11' }).success).toBe(false);
  });
  it('are replaced by 127.0.0.1 if no other address can be bound, with a status message', async () => {
    const driver = await open(async () => false);
    await driver.setup(node);
    expect(await driver.add(attachment('a'))).toEqual({ ips: ['127.0.0.1'] });
    expect((await driver.status()).message).toContain('share');
  });
});

describe('conflist', () => {
  it('of another network plugin of this node is removed; files of other programs stay', async () => {
    const directory = join(dataDir, 'net.d');
    const list = { cniVersion: '1.0.0', name: 'left', plugins: [] };
    await writeConflist({ directory, file: '10-left.conflist', dataDir: join(dirname(dataDir), 'network-bridge') }, list);
    await writeConflist({ directory, file: '10-other.conflist', dataDir: join(dataDir, 'other', 'network-bridge') }, list);
    const driver = await open();
    await driver.setup(node);
    expect((await readdir(directory)).filter((name) => !name.startsWith('.'))).toEqual(['10-other.conflist']);
    await driver.setup(node);
  });
});

describe('address pool', () => {
  it('reuses the address that was released first, after all unused ones', () => {
    const pool = new AddressPool();
    pool.use([loopbackRange('127.1.0.0/29')]);
    const [a, b] = [pool.take() ?? 0, pool.take() ?? 0];
    pool.free(b);
    pool.free(a);
    const rest = Array.from({ length: 4 }, () => pool.take());
    expect(rest).not.toContain(a);
    expect([pool.take(), pool.take(), pool.take()]).toEqual([b, a, undefined]);
  });
  it('does not assign allocated addresses, and releases each address once', () => {
    const pool = new AddressPool();
    pool.hold(0x7f010001);
    pool.use([loopbackRange('127.1.0.0/30'), loopbackRange('127.2.0.0/30')]);
    expect([pool.take(), pool.take(), pool.take(), pool.take()]).toEqual([0x7f010002, 0x7f020001, 0x7f020002, undefined]);
    pool.free(0x7f010002);
    pool.free(0x7f010002);
    expect([pool.take(), pool.take()]).toEqual([0x7f010002, undefined]);
  });
});

describe('allocation files', () => {
  it('are private, one per address, and readable after a crash', async () => {
    const directory = join(dataDir, 'allocations');
    await mkdir(directory, { mode: 0o700 });
    await writeFile(join(directory, '.new-1'), '{"cont');
    await writeFile(join(directory, '127.128.0.9'), '');
    await writeFile(
      join(directory, '127.128.0.1'),
      JSON.stringify({ containerId: 'old', ifName: 'eth0', pod: { namespace: 'd', name: 'old', uid: 'u' } }),
    );
    const driver = await open();
    await driver.setup(node);
    expect(await readdir(directory)).toEqual(['127.128.0.1']);
    expect((await driver.add(attachment('new'))).ips).toEqual(['127.128.0.2']);
    expect((await stat(join(directory, '127.128.0.2'))).mode & 0o777).toBe(0o600);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    await rm(join(directory, '127.128.0.2'));
    await expect(driver.check(attachment('new'))).rejects.toMatchObject({ code: 'Broken' });
  });
  it('separate two drivers with the same directory', async () => {
    const [one, two] = [await open(), await open()];
    for (const driver of [one, two]) await driver.setup(node);
    const assigned = await Promise.all(Array.from({ length: 40 }, (_, index) => (index % 2 ? one : two).add(attachment(`c${index}`))));
    expect(new Set(assigned.map((result) => result.ips[0])).size).toBe(40);
  });
});

it('two pods can listen on the same port', async ({ skip }) => {
  const host = new PluginHost({ clock: systemClock, dataDir }).add({ plugin });
  await host.start();
  const driver = host.get(Network);
  await driver.setup(node);
  if (!(await driver.status()).message.includes('in use')) skip('this platform binds only 127.0.0.1');
  const ips = [(await driver.add(attachment('a'))).ips[0], (await driver.add(attachment('b'))).ips[0]];
  const first = createServer();
  const port = await new Promise<number>((resolve) => {
    first.listen(0, ips[0], () => resolve((first.address() as { port: number }).port));
  });
  const second = createServer();
  await new Promise<void>((resolve, reject) => {
    second.once('error', reject).listen(port, ips[1], () => resolve());
  });
  first.close();
  second.close();
  await host.stop();
});
