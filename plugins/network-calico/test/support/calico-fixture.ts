import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
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
import { CalicoNetwork, type Api } from '../../src/calico-network.ts';
import { calicoConfig, type CalicoConfig } from '../../src/config/calico-config.ts';
import { tableOf } from '../../src/dataplane/node-rules.ts';

const run = promisify(execFile);
export const traits = { namespace: 'pod', podCIDR: '10.244.0.0/16', serviceCIDR: '10.96.0.0/16' } as const;

export interface CalicoFixture extends NetworkFixture {
  readonly driver: CalicoNetwork;
  readonly directory: string;
  readonly settings: CalicoConfig;
  restart(): Promise<CalicoNetwork>;
  newNetns(): Promise<{ readonly path: string; remove(): Promise<void> }>;
}
export interface FixtureOptions {
  readonly config?: Partial<CalicoConfig>;
  readonly node?: Partial<NodeNetwork>;
  /** Without the portmap and bandwidth plugins. */
  readonly alone?: boolean;
  /** Absent: the node has no API and uses its own ranges. */
  readonly api?: Api & { stop(): Promise<void> };
}

/** Counts the routes, rules and interfaces that an ADD may leave behind. */
async function counts(prefix: string): Promise<Record<string, number>> {
  const lines = async (program: string, ...args: string[]) =>
    (await run(program, args)).stdout.split('\n').filter((line) => line.includes(prefix)).length;
  const [links, routes, routes6, rules] = await Promise.all([
    lines('ip', '-o', 'link', 'show', 'type', 'veth'),
    lines('ip', '-4', 'route', 'show', 'table', 'all'),
    lines('ip', '-6', 'route', 'show', 'table', 'all'),
    run('nft', ['list', 'table', 'inet', tableOf(prefix)]).then(({ stdout }) => stdout.split('\n').length),
  ]);
  return { links, routes, routes6, rules };
}

/** Opens a driver with its own interfaces, directories and namespaces. */
export async function openCalico({ config = {}, node: more = {}, alone = false, api }: FixtureOptions = {}): Promise<CalicoFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'calico-'));
  const prefix = `c${randomBytes(2).toString('hex')}`;
  const settings: CalicoConfig = {
    ...calicoConfig.parse({}),
    confDir: join(directory, 'net.d'),
    binDirs: [join(directory, 'bin'), ...(alone ? [] : ['/usr/lib/cni'])],
    interfacePrefix: prefix,
    ...config,
  };
  await mkdir(join(directory, 'bin'));
  const drivers: CalicoNetwork[] = [];
  const make = async () => {
    const context = { log: silentLogger, clock: systemClock, tracer: noTracer, dataDir: join(directory, 'data') };
    const driver = new CalicoNetwork(settings, { traits, context, api });
    await driver.start();
    drivers.push(driver);
    return driver;
  };
  const range = `10.${200 + Math.floor(Math.random() * 50)}.${Math.floor(Math.random() * 250)}`;
  const node: NodeNetwork = {
    nodeName: 'n1',
    podCIDRs: [`${range}.0/24`],
    clusterCIDRs: [`${range}.0/24`],
    serviceCIDRs: ['10.96.0.0/16'],
    nodeIPs: ['192.0.2.1'],
    ...more,
  };
  const namespaces = new Set<string>();
  let crashes = 0;
  return {
    driver: await make(),
    directory,
    settings,
    node,
    small: { ...node, podCIDRs: [`${range}.0/29`], clusterCIDRs: [`${range}.0/29`] },
    restart: make,
    async newNetns() {
      const name = `${prefix}-${randomBytes(4).toString('hex')}`;
      await run('ip', ['netns', 'add', name]);
      namespaces.add(name);
      return {
        path: `/run/netns/${name}`,
        async remove() {
          if (namespaces.delete(name)) await run('ip', ['netns', 'del', name]);
        },
      };
    },
    ...(api
      ? {
          cycles: 90,
          unsupported: { crash: "the API of the test is in its own process; what a node's claims are after a crash is tested beside" },
        }
      : {
          crashAdd: (attachment: Attachment, ofNode: NodeNetwork) => crashAdd(directory, settings, attachment, ofNode, crashes++ % 3),
        }),
    countResources: async () => ({
      ...(await counts(prefix)),
      records: (await readdir(join(directory, 'data', 'attachments'))).length,
      endpoints: (await readdir(join(directory, 'data', 'endpoints'))).length,
    }),
    async dispose() {
      for (const driver of drivers) await driver.stop();
      for (const name of namespaces) await run('ip', ['netns', 'del', name]);
      await api?.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Starts an ADD in another process and kills it: before the first change, after the record, or after the endpoint exists. */
async function crashAdd(
  directory: string,
  settings: CalicoConfig,
  attachment: Attachment,
  node: NodeNetwork,
  moment: number,
): Promise<void> {
  const data = join(directory, 'data');
  const program = fileURLToPath(new URL('./crashing-add.mjs', import.meta.url));
  const flags = loaderFlags(programPath('@oarlock/network-calico/calico-network', import.meta.url));
  const words = [data, JSON.stringify(settings), JSON.stringify(attachment), JSON.stringify(node)];
  const child = spawn(process.execPath, [...flags, program, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  if (moment === 0) await once(child.stdout, 'data');
  else await changed(join(data, moment === 1 ? 'attachments' : 'endpoints'));
  child.kill('SIGKILL');
  await exited;
}

function changed(directory: string): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(directory, () => {
      watcher.close();
      resolve();
    });
  });
}
