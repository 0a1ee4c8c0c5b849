import { chmod, lchown, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

const setGroupId = 0o2000;
const forGroup = { file: 0o060, directory: 0o070 };

/** Gives a volume to a group, which may then read and write all of it. Links are not followed. Without root nothing can be given away. */
export async function giveToGroup(path: string, group: number): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const stats = await lstat(path);
  await lchown(path, stats.uid, group);
  if (stats.isSymbolicLink()) return;
  const more = stats.isDirectory() ? forGroup.directory | setGroupId : forGroup.file;
  await chmod(path, (stats.mode & 0o7777) | more);
  if (!stats.isDirectory()) return;
  for (const entry of await readdir(path)) await giveToGroup(join(path, entry), group);
}
