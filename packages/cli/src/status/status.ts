import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { pluginHealthUrl, type PluginHealthList } from '@oarlock/cluster/paths/plugin-health-path';
import { adminKubeconfig, readProcessState } from '@oarlock/cluster/process/process-state';
import { remoteAccess } from '@oarlock/cluster/remote-access';
import type { Client } from '@oarlock/spi/client';
import { parse, stringify } from 'yaml';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { formatClusterStatus, readClusterStatus } from './cluster-status.ts';

export interface StatusOptions {
  readonly dataDir: string;
  /** Kubeconfig of the cluster, instead of a data directory. */
  readonly kubeconfig?: string;
  readonly output: string;
}

/**
 * Prints the process of a data directory and the health checks of its API server, then the servers, leaders, nodes and certificates of the whole
 * cluster. With a kubeconfig, prints the cluster only.
 */
export async function status(options: StatusOptions): Promise<void> {
  if (options.output !== 'text' && options.output !== 'json') throw new CommandError('--output must be text or json', exitCodes.usage);
  const file = options.kubeconfig ?? (await localKubeconfig(options));
  if (file === undefined) return;
  const access = await remoteAccess(file);
  try {
    const { client } = access;
    if (options.kubeconfig === undefined && options.output === 'text') await printHealth(client);
    const cluster = await readClusterStatus(access, file);
    console.log(options.output === 'json' ? JSON.stringify(cluster, null, 2) : `\n${formatClusterStatus(cluster, Date.now())}`);
  } finally {
    access.close();
  }
}

/** Prints the process of a data directory. Returns the kubeconfig of its API server, or undefined if the process has none. */
async function localKubeconfig(options: StatusOptions): Promise<string | undefined> {
  const dataDir = resolve(options.dataDir);
  const state = await readProcessState(dataDir);
  if (state === undefined) throw new CommandError(`no cluster is running in ${dataDir}`);
  if (options.output === 'text')
    console.log(`process ${state.pid}: ${state.roles.join(', ')}; ${state.ready ? 'ready' : 'starting'}; ${state.server}`);
  return state.roles.includes('apiserver') ? adminKubeconfig(dataDir) : undefined;
}

/** Prints the health checks and the plugins of the API server, and warnings of the nodes. */
async function printHealth(client: Client): Promise<void> {
  console.log(String(await client.raw('GET', '/readyz?verbose')).trimEnd());
  const { plugins } = (await client.raw('GET', pluginHealthUrl)) as PluginHealthList;
  for (const { name, healthy, reason = '', faults } of plugins) {
    const counts = Object.entries(faults).flatMap(([kind, count]) => (count > 0 ? [`${kind} ${count}`] : []));
    const history = counts.length > 0 ? ` (faults since the start: ${counts.join(', ')})` : '';
    console.log(`plugin ${name}: ${healthy ? 'healthy' : `unhealthy: ${reason}`}${history}`);
  }
  for (const { metadata, status: nodeStatus } of (await client.list<Node>(nodes)).items) {
    const isolation = nodeStatus?.conditions?.find(({ type }) => type === 'PodIsolation');
    if (isolation?.status === 'False') console.log(`node ${metadata?.name}: ${isolation.message}`);
  }
}

/** Prints the admin kubeconfig of a data directory, with one context per server if servers are given. */
export async function kubeconfig(options: { readonly dataDir: string; readonly server?: readonly string[] }): Promise<void> {
  const file = adminKubeconfig(resolve(options.dataDir));
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new CommandError(`cannot read ${file}: ${(cause as Error).message}. \`oarlock up\` creates it.`, 1, { cause });
  }
  process.stdout.write(options.server === undefined ? text : withServers(text, options.server));
}

interface KubeconfigFile {
  readonly clusters: readonly [{ readonly name: string; readonly cluster: Readonly<Record<string, string>> }];
  readonly contexts: readonly [{ readonly name: string; readonly context: Readonly<Record<string, string>> }];
}

/** Returns a kubeconfig with a cluster and a context for each server. The first is the current context. @throws CommandError if a URL is invalid */
export function withServers(text: string, servers: readonly string[]): string {
  for (const server of servers)
    if (!URL.canParse(server) || new URL(server).protocol !== 'https:')
      throw new CommandError(`--server: ${JSON.stringify(server)} is not a URL that begins with https://`, exitCodes.usage);
  const config = parse(text) as KubeconfigFile;
  const [{ name: clusterName, cluster }] = config.clusters;
  const [{ name: contextName, context }] = config.contexts;
  const named = (name: string, index: number) => (index === 0 ? name : `${name}-${index + 1}`);
  return stringify({
    ...config,
    clusters: servers.map((server, index) => ({ name: named(clusterName, index), cluster: { ...cluster, server } })),
    contexts: servers.map((_, index) => ({
      name: named(contextName, index),
      context: { ...context, cluster: named(clusterName, index) },
    })),
  });
}
