import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Returns the process id of the supervisor of a plugin's containers, which does not name its directory: that of the newest lock. */
export async function supervisorOf(dataDir: string, plugin: 'runtime-oci' | 'runtime-process'): Promise<number> {
  const directory = join(dataDir, 'plugins', plugin);
  const generations = (await readdir(directory)).flatMap((name) => (name.startsWith('lock.') ? [Number(name.slice('lock.'.length))] : []));
  const text = await readFile(join(directory, `lock.${Math.max(...generations)}`), 'utf8');
  return (JSON.parse(text) as { readonly pid: number }).pid;
}
