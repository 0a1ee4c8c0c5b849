import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { adminKubeconfig, readState } from '@oarlock/cluster/process-state';
import { remoteAccess } from '@oarlock/cluster/remote';
import { CommandError } from './exit.ts';

export async function status(options: { readonly dataDir: string }): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const state = await readState(dataDir);
  if (state === undefined) throw new CommandError(`nothing runs in ${dataDir}`);
  console.log(`process ${state.pid}: ${state.roles.join(', ')}; ${state.ready ? 'ready' : 'starting'}; ${state.server}`);
  if (!state.roles.includes('apiserver')) return;
  const { client } = await remoteAccess(adminKubeconfig(dataDir));
  console.log(String(await client.raw('GET', '/readyz?verbose')).trimEnd());
}

export async function kubeconfig(options: { readonly dataDir: string }): Promise<void> {
  const file = adminKubeconfig(resolve(options.dataDir));
  try {
    process.stdout.write(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new CommandError(`${file} cannot be read: ${(cause as Error).message}. \`oarlock up\` writes it.`, 1, { cause });
  }
}
