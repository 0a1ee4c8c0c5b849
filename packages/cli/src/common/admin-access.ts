import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isStatus } from '@oarlock/api/status';
import { adminKubeconfig, readProcessState } from '@oarlock/cluster/process/process-state';
import { remoteAccess, type RemoteAccess } from '@oarlock/cluster/remote-access';
import { areKeysShared } from './are-keys-shared.ts';
import { CommandError } from './command-error.ts';

/**
 * Connects to the cluster of a data directory as the cluster's admin.
 * @throws CommandError if no cluster has run in the data directory, or if no cluster runs now
 */
export async function adminAccess(directory: string): Promise<RemoteAccess> {
  const dataDir = resolve(directory);
  const file = adminKubeconfig(dataDir);
  const state = await readProcessState(dataDir);
  if (!existsSync(file)) {
    if (state !== undefined)
      throw new CommandError(
        `process ${state.pid} of ${dataDir} runs ${state.roles.join(', ')} only: run the command where the API server runs, ${state.server}`,
      );
    throw new CommandError(`no cluster has run in ${dataDir}: start one with \`oarlock up\`, or set --data-dir to its data directory`);
  }
  const access = await remoteAccess(file);
  if (state !== undefined) return access;
  // the process may be in another container, where its pid cannot be checked: any answer of the API server will do
  try {
    await access.client.raw('GET', '/livez');
  } catch (cause) {
    access.close();
    if (!isStatus(cause, 'ServiceUnavailable')) throw cause;
    throw new CommandError(notRunning(dataDir), undefined, { cause });
  }
  return access;
}

/** Returns the sentence for a data directory whose API server does not run. Other servers of the cluster may run, and each of them can run the command. */
function notRunning(dataDir: string): string {
  if (!areKeysShared(dataDir)) return `no cluster is running in ${dataDir}: start it with \`oarlock up --data-dir ${dataDir}\``;
  const start = existsSync(join(dataDir, 'cluster.yaml')) ? 'oarlock server join' : 'oarlock up -f FILE';
  return `the server of ${dataDir} is not running: run the command on another server of the cluster, or start this one with \`${start} --data-dir ${dataDir}\``;
}
