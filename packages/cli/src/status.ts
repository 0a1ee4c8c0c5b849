import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { pluginHealthUrl, type PluginHealthList } from '@oarlock/cluster/paths/plugin-health-path';
import { adminKubeconfig, readProcessState, type ProcessState } from '@oarlock/cluster/process/process-state';
import { remoteAccess } from '@oarlock/cluster/remote-access';
import { CommandError } from './common/command-error.ts';
import { printFacts, type OutputFormat } from './common/output.ts';

/** The process of a data directory. Without the role `apiserver`, the process knows only itself. */
interface Status {
  readonly pid: number;
  readonly roles: readonly string[];
  readonly ready: boolean;
  readonly server: string;
  readonly startedAt?: string;
  readonly apiServer?: ApiServerStatus;
}
interface ApiServerStatus {
  /** The lines of `/readyz?verbose`. */
  readonly checks: readonly string[];
  readonly plugins: PluginHealthList['plugins'];
  /** Nodes whose pods are not isolated. */
  readonly nodesWithoutIsolation: readonly { readonly name: string; readonly message: string }[];
}

/** Prints the process of a data directory, its roles and the health checks of its API server. */
export async function status(options: { readonly dataDir: string; readonly output: OutputFormat }): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const state = await readProcessState(dataDir);
  if (state === undefined) throw new CommandError(`no cluster is running in ${dataDir}`);
  const facts = processStatus(state);
  if (!state.roles.includes('apiserver')) return printFacts(options.output, facts, textOf);
  let apiServer: ApiServerStatus;
  try {
    apiServer = await apiServerStatus(dataDir);
  } catch (error) {
    // what is known of a process whose API server fails
    await printFacts(options.output, facts, textOf);
    throw error;
  }
  await printFacts(options.output, { ...facts, apiServer }, textOf);
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
    const checks = String(await client.raw('GET', '/readyz?verbose'))
      .trimEnd()
      .split('\n');
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

export function textOf({ pid, roles, ready, server, apiServer }: Status): string {
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
  ].join('\n');
}

/** Prints the admin kubeconfig of a data directory. */
export async function kubeconfig(options: { readonly dataDir: string }): Promise<void> {
  const file = adminKubeconfig(resolve(options.dataDir));
  try {
    process.stdout.write(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new CommandError(`cannot read ${file}: ${(cause as Error).message}. \`oarlock up\` creates it.`, 1, { cause });
  }
}
