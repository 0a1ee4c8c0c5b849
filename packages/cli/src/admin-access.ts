import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { isStatus } from '@oarlock/api/status';
import { adminKubeconfig, readState } from '@oarlock/cluster/process-state';
import { remoteAccess, type RemoteAccess } from '@oarlock/cluster/remote';
import { CommandError } from './exit.ts';

/** The cluster of a data directory, asked as its admin. @throws CommandError when none has run there, or none runs now */
export async function adminAccess(directory: string): Promise<RemoteAccess> {
  const dataDir = resolve(directory);
  const file = adminKubeconfig(dataDir);
  const state = await readState(dataDir);
  if (!existsSync(file)) {
    if (state !== undefined)
      throw new CommandError(
        `process ${state.pid} of ${dataDir} runs ${state.roles.join(', ')}: ask where its API server runs, ${state.server}`,
      );
    throw new CommandError(`no cluster has run in ${dataDir}: \`oarlock up\` starts one, and --data-dir says where it is`);
  }
  const access = await remoteAccess(file);
  if (state !== undefined) return access;
  // a process of another container may have the directory: what answers is as good as what can be seen
  try {
    await access.client.raw('GET', '/livez');
  } catch (cause) {
    access.close();
    if (!isStatus(cause, 'ServiceUnavailable')) throw cause;
    throw new CommandError(`nothing runs in ${dataDir}: \`oarlock up --data-dir ${dataDir}\` starts it again`, undefined, { cause });
  }
  return access;
}
