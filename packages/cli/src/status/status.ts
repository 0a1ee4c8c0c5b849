import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { pluginHealthUrl, type PluginHealthList } from '@oarlock/cluster/paths/plugin-health-path';
import { adminKubeconfig, readProcessState, type ProcessState } from '@oarlock/cluster/process/process-state';
import { remoteAccess } from '@oarlock/cluster/remote-access';
import type { Client } from '@oarlock/spi/client';
import { errorText } from '@oarlock/primitives/error-text';
import { parse, stringify } from 'yaml';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';
import { failedChecks } from './failed-checks.ts';
import { formatClusterStatus, readClusterStatus, type ClusterStatus } from './cluster-status.ts';

/** The process of a data directory. Without the role `apiserver`, the process knows only itself. */
interface Status {
  readonly pid: number;
  readonly roles: readonly string[];
  readonly ready: boolean;
  readonly server: string;
  readonly startedAt?: string;
  readonly apiServer?: ApiServerStatus;
  readonly cluster?: ClusterStatus;
}
interface ApiServerStatus {
  /** The lines of `/readyz?verbose`. */
  readonly checks: readonly string[];
  readonly plugins: PluginHealthList['plugins'];
  /** Nodes whose pods are not isolated. */
  readonly nodesWithoutIsolation: readonly { readonly name: string; readonly message: string }[];
}

export interface StatusOptions {
  readonly dataDir: string;
  /** Kubeconfig of a cluster, instead of a data directory. */
  readonly kubeconfig?: string;
  readonly output: OutputFormat;
}

/**
 * Prints the process of a data directory and the health checks of its API server, then the servers, leaders, nodes and certificates of the whole
 * cluster. With a kubeconfig, prints the cluster only.
 */
export async function status(options: StatusOptions): Promise<void> {
  if (options.kubeconfig !== undefined) {
    const cluster = await clusterStatus(options.kubeconfig);
    return printFacts(options.output, { cluster }, () => formatClusterStatus(cluster, Date.now()));
  }
  const dataDir = resolve(options.dataDir);
  const state = await readProcessState(dataDir);
  if (state === undefined) throw new CommandError(`no cluster is running in ${dataDir}`);
  let facts = processStatus(state);
  try {
    if (state.roles.includes('apiserver')) {
      facts = { ...facts, apiServer: await apiServerStatus(dataDir) };
      facts = { ...facts, cluster: await clusterStatus(adminKubeconfig(dataDir)) };
    }
  } finally {
    // also what is known of a process whose API server fails
    await printFacts(options.output, facts, textOf);
  }
  const failed = failedChecks(facts.apiServer?.checks.join('\n') ?? '');
  if (failed.length > 0) throw new CommandError(`the API server is not ready: ${failed.join(', ')} failed`);
}

async function clusterStatus(kubeconfigFile: string): Promise<ClusterStatus> {
  const access = await remoteAccess(kubeconfigFile);
  try {
    return await readClusterStatus(access, kubeconfigFile);
  } finally {
    access.close();
  }
}

const processStatus = ({ pid, roles, ready, server, startedAt }: ProcessState): Status => ({
  pid,
  roles,
  ready,
  server,
  ...(startedAt !== undefined && { startedAt: new Date(startedAt).toISOString() }),
});

async function apiServerStatus(dataDir: string): Promise<ApiServerStatus> {
  const { client, close } = await remoteAccess(adminKubeconfig(dataDir));
  try {
    const checks = (await readinessOf(client)).trimEnd().split('\n');
    const { plugins } = (await client.raw('GET', pluginHealthUrl)) as PluginHealthList;
    const nodesWithoutIsolation = (await client.list<Node>(nodes)).items.flatMap(({ metadata, status: nodeStatus }) => {
      const isolation = nodeStatus?.conditions?.find(({ type }) => type === 'PodIsolation');
      return isolation?.status === 'False' ? [{ name: metadata?.name ?? '', message: isolation.message ?? '' }] : [];
    });
    return { checks, plugins, nodesWithoutIsolation };
  } finally {
    close();
  }
}

/** Returns the response to `/readyz?verbose`, also that of a server that is not ready. */
async function readinessOf(client: Client): Promise<string> {
  try {
    return String(await client.raw('GET', '/readyz?verbose'));
  } catch (error) {
    // the client quotes a body that is no Status
    const [, quoted] = /^an error on the server \((".*")\) has prevented the request from succeeding$/.exec(errorText(error)) ?? [];
    if (quoted === undefined) throw error;
    return JSON.parse(quoted) as string;
  }
}

export function textOf({ pid, roles, ready, server, apiServer, cluster }: Status): string {
  const head = `process ${pid}: ${roles.join(', ')}; ${ready ? 'ready' : 'starting'}; ${server}`;
  if (apiServer === undefined) return head;
  const { checks, plugins, nodesWithoutIsolation } = apiServer;
  return [
    head,
    ...checks,
    ...plugins.map(({ name, healthy, reason = '', faults }) => {
      const counts = Object.entries(faults).flatMap(([kind, count]) => (count > 0 ? [`${kind} ${count}`] : []));
      const history = counts.length > 0 ? ` (faults since the start: ${counts.join(', ')})` : '';
      return `plugin ${name}: ${healthy ? 'healthy' : `unhealthy: ${reason}`}${history}`;
    }),
    ...nodesWithoutIsolation.map(({ name, message }) => `node ${name}: ${message}`),
    ...(cluster === undefined ? [] : ['', formatClusterStatus(cluster, Date.now())]),
  ].join('\n');
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
