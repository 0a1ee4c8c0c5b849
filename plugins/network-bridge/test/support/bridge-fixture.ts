import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import { noTracer } from '@oarlock/kernel/tracing';
import type { Attachment, NodeNetwork } from '@oarlock/spi/network';
import type { NetworkFixture } from '@oarlock/spi/network/contract';
import { BridgeNetwork, type BridgeNetworkConfig } from '../../src/bridge-network.ts';
import { forwardRules } from '@oarlock/network-cni/routing/forwarding';
import { NodeSetup } from '@oarlock/network-cni/routing/node-setup';
import plugin from '../../src/plugin.ts';

const run = promisify(execFile);
const traits = { namespace: 'pod', podCIDR: '10.244.0.0/16', serviceCIDR: '10.96.0.0/16' } as const;

/** Returns why the tests cannot run on this machine, or undefined. */
export async function whyNot(): Promise<string | undefined> {
  const answer = await plugin.probe?.(plugin.config.parse({}));
  return answer?.available === false ? answer.reason : undefined;
}

export interface BridgeFixture extends NetworkFixture {
  readonly driver: BridgeNetwork;
  readonly directory: string;
  readonly bridge: string;
  restart(changed?: Partial<BridgeNetworkConfig>): Promise<BridgeNetwork>;
  newNetns(): Promise<{ readonly path: string; remove(): Promise<void> }>;
}

/** Opens a driver with its own bridge, directories and namespaces. */
export async function openBridge(
  config: Partial<BridgeNetworkConfig> = {},
  subnet = 200 + Math.floor(Math.random() * 50),
): Promise<BridgeFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'network-bridge-'));
  const bridge = `obr${randomBytes(4).toString('hex')}`;
  const settings: BridgeNetworkConfig = {
    ...(plugin.config.parse({}) as BridgeNetworkConfig),
    confDir: join(directory, 'net.d'),
    cniCacheDir: join(directory, 'cni-cache'),
    bridge,
    name: bridge,
    ...config,
  };
  const drivers: BridgeNetwork[] = [];
  const make = async (changed: Partial<BridgeNetworkConfig> = {}) => {
    const driver = new BridgeNetwork(
      { ...settings, ...changed },
      {
        traits,
        context: {
          log: silentLogger,
          clock: systemClock,
          tracer: noTracer,
          dataDir: join(directory, 'data'),
        },
      },
    );
    await driver.start();
    drivers.push(driver);
    return driver;
  };
  const range = `10.${subnet}.${Math.floor(Math.random() * 250)}`;
  const node: NodeNetwork = {
    nodeName: 'n1',
    podCIDRs: [`${range}.0/24`],
    clusterCIDRs: [`10.${subnet}.0.0/16`],
    serviceCIDRs: ['10.96.0.0/16'],
    nodeIPs: ['192.0.2.1'],
  };
  const namespaces = new Set<string>();
  let crashes = 0;
  return {
    driver: await make(),
    directory,
    bridge,
    node,
    small: { ...node, podCIDRs: [`${range}.0/29`] },
    restart: make,
    async newNetns() {
      const name = `${bridge}-${randomBytes(4).toString('hex')}`;
      await run('ip', ['netns', 'add', name]);
      namespaces.add(name);
      return {
        path: `/run/netns/${name}`,
        async remove() {
          if (namespaces.delete(name)) await run('ip', ['netns', 'del', name]);
        },
      };
    },
    async crashAdd(attachment: Attachment, ofNode: NodeNetwork) {
      const data = join(directory, 'data');
      await mkdir(join(data, 'ipam', bridge), { recursive: true });
      const program = fileURLToPath(new URL('./crashing-add.mjs', import.meta.url));
      const child = spawn(
        process.execPath,
        [
          ...loaderFlags(programPath('@oarlock/network-bridge/bridge-network', import.meta.url)),
          program,
          data,
          JSON.stringify(settings),
          JSON.stringify(attachment),
          JSON.stringify(ofNode),
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      const exited = once(child, 'exit');
      const moment = crashes++ % 3;
      if (moment === 0)
        await once(child.stdout, 'data'); // before the first change
      else await changed(join(data, moment === 1 ? 'attachments' : join('ipam', bridge))); // after the record, or after the address
      child.kill('SIGKILL');
      await exited;
      await orphansGone(attachment.containerId);
    },
    countResources: async () => {
      const [links, rules, records, leases] = await Promise.all([
        run('ip', ['-o', 'link', 'show', 'type', 'veth']).then(
          ({ stdout }) => stdout.split('\n').filter((line) => line.includes(`master ${bridge}`)).length,
        ),
        run('iptables-save', []).then(
          ({ stdout }) => stdout.split('\n').filter((line) => line.includes(bridge) && !line.includes(`oarlock ${bridge}`)).length,
        ),
        readdir(join(directory, 'data', 'attachments')).then((names) => names.length),
        readdir(join(directory, 'data', 'ipam', bridge)).then(
          (names) => names.filter((name) => /^\d/.test(name)).length,
          () => 0,
        ),
      ]);
      return { links, rules, records, leases };
    },
    async dispose() {
      for (const driver of drivers) await driver.stop();
      for (const name of namespaces) await run('ip', ['netns', 'del', name]);
      await run('ip', ['link', 'del', bridge]).catch(() => undefined); // without a pod there is no bridge
      const setup = new NodeSetup(systemClock, silentLogger);
      await setup.removeMasquerade(bridge);
      await run('nft', ['delete', 'table', 'bridge', `oarlock-${bridge}`]).catch(() => undefined); // exists after `setup` only
      // exist only if other programs have rules
      for (const rule of forwardRules(bridge)) await run('iptables', ['-w', '5', '-D', 'FORWARD', ...rule]).catch(() => undefined);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function changed(directory: string): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(directory, () => {
      watcher.close();
      resolve();
    });
  });
}

/** Waits until the plugins of a killed driver have ended. */
async function orphansGone(containerId: string): Promise<void> {
  const needle = `CNI_CONTAINERID=${containerId}`;
  for (;;) {
    const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const environments = await Promise.all(processes.map((pid) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')));
    if (!environments.some((text) => text.includes(needle))) return;
  }
}
