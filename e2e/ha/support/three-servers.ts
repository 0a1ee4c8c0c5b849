import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Cluster } from '../../harness/cluster.ts';
import type { ClusterSpec } from '../../harness/composition.ts';
import type { Machine } from '../../harness/machine.ts';
import { oarlock, type OarlockProgram } from '../../harness/oarlock.ts';
import { Daemon, endProcessesBelow, freePort, mustRun } from '../../harness/programs.ts';
import { startEtcdCluster, type EtcdCluster } from './etcd-members.ts';

/** Addresses of the servers, on the loopback interface of the test's own network namespace. All use one port, as the Service `kubernetes` requires. */
const addresses = ['10.213.0.11', '10.213.0.12', '10.213.0.13'] as const;

export interface ThreeServers {
  readonly etcd: EtcdCluster;
  readonly servers: readonly Cluster[];
  readonly urls: readonly string[];
}

export interface ThreeServersOptions {
  readonly spec?: Partial<ClusterSpec> & Readonly<Record<string, unknown>>;
  readonly roles?: readonly string[];
  readonly program?: OarlockProgram;
}

/** The server whose process listens at the URL. */
export const serverAt = ({ servers, urls }: ThreeServers, url: string): Cluster => {
  const server = servers[urls.indexOf(url)];
  if (server === undefined) throw new Error(`no server listens at ${url}`);
  return server;
};

/** Starts three etcd members and three servers with the same keys. */
export async function startThreeServers(machine: Machine, { spec, roles, program }: ThreeServersOptions = {}): Promise<ThreeServers> {
  for (const address of addresses) await mustRun('ip', ['addr', 'add', `${address}/32`, 'dev', 'lo']);
  machine.undo('addresses', async () => {
    for (const address of addresses) await mustRun('ip', ['addr', 'del', `${address}/32`, 'dev', 'lo']);
  });
  const etcd = await startEtcdCluster(machine.path('etcd'));
  machine.undo('etcd members', () => etcd.stop());
  const port = await freePort();
  const servers: Cluster[] = [];
  for (const [index, address] of addresses.entries()) {
    const server = await machine.prepare({
      port,
      nodeName: `server-${index}`,
      ...(program && { program }),
      spec: {
        roles: roles ?? ['apiserver', 'controllers', 'scheduler'],
        server: { address },
        networking: { serviceCIDRs: ['127.96.0.0/16'] },
        // each server prefers a member of its own
        storage: { use: 'storage-etcd', config: { endpoints: [...etcd.endpoints.slice(index), ...etcd.endpoints.slice(0, index)] } },
        ...spec,
        settings: { controllers: { leaderElect: true }, scheduler: { leaderElect: true }, ...spec?.settings },
      },
    });
    const [first] = servers;
    // the servers are one cluster only with the same CA and the same signing keys
    if (first !== undefined) await cp(join(first.dataDir, 'pki'), join(server.dataDir, 'pki'), { recursive: true });
    await server.up();
    servers.push(server);
  }
  return { etcd, servers, urls: addresses.map((address) => `https://${address}:${port}`) };
}

export interface JoinedNode {
  readonly name: string;
  readonly dir: string;
  readonly dataDir: string;
  readonly daemon: Daemon;
  /** Starts the node again over its data, after its process has ended. Resolves when it is ready. */
  restart(program: OarlockProgram): Promise<void>;
}

export interface JoinNodeOptions {
  /** Name of the node's directory, and of the node without `as`. */
  readonly name: string;
  readonly as?: string;
  readonly spec: Readonly<Record<string, unknown>>;
  /** The URLs of `--server`. */
  readonly servers: readonly string[];
  readonly program?: OarlockProgram;
}

/** Joins a node to the cluster of a running server and waits until it is ready. */
export async function joinNode(
  machine: Machine,
  server: Cluster,
  { name, as = name, spec, servers, program = oarlock }: JoinNodeOptions,
): Promise<JoinedNode> {
  const dir = machine.path(name);
  await mkdir(dir);
  const [file, dataDir] = [join(dir, 'node.yaml'), join(dir, 'data')];
  await writeFile(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'e2e' }, spec }));
  const { code, stdout, stderr } = await server.oarlock('token', 'create');
  if (code !== 0) throw new Error(stderr);
  const words = stdout.trim().split(' ');
  const option = (flag: string) => [flag, words[words.indexOf(flag) + 1] ?? ''];
  const first = [...servers.flatMap((url) => ['--server', url]), ...option('--token'), ...option('--ca-hash')];
  const start = async ({ file: binary, args }: OarlockProgram, more: readonly string[]): Promise<Daemon> => {
    const daemon = new Daemon(binary, [...args, 'node', 'join', ...more, '--node-name', as, '-f', file, '--data-dir', dataDir]);
    await daemon.line(new RegExp(`^The node ${as} is ready at `));
    return daemon;
  };
  machine.undo(`node ${name}`, () => endProcessesBelow(dir));
  let daemon = await start(program, first);
  return {
    ...{ name: as, dir, dataDir },
    get daemon() {
      return daemon;
    },
    async restart(next) {
      daemon = await start(next, []);
    },
  };
}
