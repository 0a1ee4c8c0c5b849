import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { pluginHealthUrl, type PluginHealthList } from '@oarlock/cluster/paths/plugin-health-path';
import { adminKubeconfig, readProcessState, type ProcessState } from '@oarlock/cluster/process/process-state';
import { remoteAccess } from '@oarlock/cluster/remote-access';
import type { Client } from '@oarlock/spi/client';
import { parse, stringify } from 'yaml';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';
import { failedChecks, readinessOf } from '../common/failed-checks.ts';
import { readParts } from './read-parts.ts';
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
  /** A sentence for each part that could not be read, with the reason. */
  readonly failures?: readonly string[];
}
interface NodeProblem {
  readonly name: string;
  readonly message: string;
}
interface ApiServerStatus {
  /** The lines of `/readyz?verbose`. */
  readonly checks: readonly string[];
  readonly plugins: PluginHealthList['plugins'];
  /** Nodes whose pods are not isolated. */
  readonly nodesWithoutIsolation: readonly NodeProblem[];
  /** Nodes that run no images, only processes. */
  readonly nodesWithoutImages: readonly NodeProblem[];
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
  if (options.kubeconfig !== undefined) return remoteStatus(options.kubeconfig, options.output);
  const dataDir = resolve(options.dataDir);
  const state = await readProcessState(dataDir);
  if (state === undefined) throw new CommandError(`no cluster is running in ${dataDir}`);
  const known: Status = { ...processStatus(state), ...(state.roles.includes('apiserver') && (await serverStatus(dataDir))) };
  const problem = problemOf(known);
  // also what is known of a process whose API server fails
  await printFacts(options.output, { ...known, ready: known.ready && problem === undefined }, textOf);
  if (problem !== undefined) throw new CommandError(problem);
}

/** Returns a sentence with the failed health checks and the parts that could not be read, or undefined. */
export function problemOf({
  apiServer,
  failures = [],
}: {
  readonly apiServer?: Pick<ApiServerStatus, 'checks'>;
  readonly failures?: readonly string[];
}): string | undefined {
  const failed = failedChecks(apiServer?.checks.join('\n') ?? '');
  const reasons = [...(failed.length > 0 ? [`${failed.join(', ')} failed`] : []), ...failures];
  return reasons.length === 0 ? undefined : `the API server is not ready: ${reasons.join('; ')}`;
}

/** Prints the cluster of a kubeconfig, as far as its API server answers within a few seconds. */
async function remoteStatus(file: string, output: OutputFormat): Promise<void> {
  const access = await remoteAccess(file);
  try {
    const { parts, failures } = await readParts<{ readonly checks: readonly string[]; readonly cluster: ClusterStatus }>({
      checks: async () => (await readinessOf(access.client)).trimEnd().split('\n'),
      cluster: () => readClusterStatus(access, file),
    });
    const { cluster, checks = [] } = parts;
    const facts = { ...(cluster !== undefined && { cluster }), ...(failures.length > 0 && { failures }) };
    await printFacts(output, facts, () => (cluster === undefined ? checks.join('\n') : formatClusterStatus(cluster, Date.now())));
    const problem = problemOf({ apiServer: { checks }, failures });
    if (problem !== undefined) throw new CommandError(problem);
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

/** Reads what the API server of a data directory answers within a few seconds. */
async function serverStatus(dataDir: string): Promise<Pick<Status, 'apiServer' | 'cluster' | 'failures'>> {
  const file = adminKubeconfig(dataDir);
  const access = await remoteAccess(file);
  const { client } = access;
  try {
    const { parts, failures } = await readParts<ApiServerStatus & { readonly cluster: ClusterStatus }>({
      checks: async () => (await readinessOf(client)).trimEnd().split('\n'),
      plugins: async () => ((await client.raw('GET', pluginHealthUrl)) as PluginHealthList).plugins,
      nodesWithoutIsolation: () => nodesWithProblem(client, 'PodIsolation'),
      nodesWithoutImages: () => nodesWithProblem(client, 'ImageSupport'),
      cluster: () => readClusterStatus(access, file),
    });
    const { cluster, checks = [], plugins = [], nodesWithoutIsolation = [], nodesWithoutImages = [] } = parts;
    return {
      apiServer: { checks, plugins, nodesWithoutIsolation, nodesWithoutImages },
      ...(cluster !== undefined && { cluster }),
      ...(failures.length > 0 && { failures }),
    };
  } finally {
    access.close();
  }
}

/** Returns the nodes that report the bad state of a condition whose good state is `True`. */
async function nodesWithProblem(client: Client, condition: string): Promise<readonly NodeProblem[]> {
  return (await client.list<Node>(nodes)).items.flatMap(({ metadata, status: nodeStatus }) => {
    const found = nodeStatus?.conditions?.find(({ type }) => type === condition);
    return found?.status === 'False' ? [{ name: metadata?.name ?? '', message: found.message ?? '' }] : [];
  });
}

export function textOf({ pid, roles, ready, server, apiServer, cluster }: Status): string {
  const head = `process ${pid}: ${roles.join(', ')}; ${ready ? 'ready' : 'not ready'}; ${server}`;
  if (apiServer === undefined) return head;
  const { checks, plugins, nodesWithoutIsolation, nodesWithoutImages } = apiServer;
  return [
    head,
    ...checks,
    ...plugins.map(({ name, healthy, reason = '', faults }) => {
      const counts = Object.entries(faults).flatMap(([kind, count]) => (count > 0 ? [`${kind} ${count}`] : []));
      const history = counts.length > 0 ? ` (faults since the start: ${counts.join(', ')})` : '';
      return `plugin ${name}: ${healthy ? 'healthy' : `unhealthy: ${reason}`}${history}`;
    }),
    ...[...nodesWithoutIsolation, ...nodesWithoutImages].map(({ name, message }) => `node ${name}: ${message}`),
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
    throw new CommandError(
      `${file} cannot be read: ${fileErrorReason(cause)}. \`oarlock up\` creates it; --data-dir or --name selects the cluster`,
      1,
      { cause },
    );
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
