import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { pluginHealthUrl, type PluginHealthList } from '@oarlock/cluster/paths/plugin-health-path';
import { adminKubeconfig, readProcessState } from '@oarlock/cluster/process/process-state';
import { remoteAccess } from '@oarlock/cluster/remote-access';
import { CommandError } from './common/command-error.ts';

/** Prints the process of a data directory, its roles and the health checks of its API server. */
export async function status(options: { readonly dataDir: string }): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const state = await readProcessState(dataDir);
  if (state === undefined) throw new CommandError(`no cluster is running in ${dataDir}`);
  console.log(`process ${state.pid}: ${state.roles.join(', ')}; ${state.ready ? 'ready' : 'starting'}; ${state.server}`);
  if (!state.roles.includes('apiserver')) return;
  const { client } = await remoteAccess(adminKubeconfig(dataDir));
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

/** Prints the admin kubeconfig of a data directory. */
export async function kubeconfig(options: { readonly dataDir: string }): Promise<void> {
  const file = adminKubeconfig(resolve(options.dataDir));
  try {
    process.stdout.write(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new CommandError(`cannot read ${file}: ${(cause as Error).message}. \`oarlock up\` creates it.`, 1, { cause });
  }
}
