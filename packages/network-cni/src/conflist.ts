import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NetworkList } from './cni-protocol.ts';

/** Puts the list where runtimes that call CNI themselves look. Whole or not at all; untouched when it is there already. */
export async function writeConflist(directory: string, file: string, list: NetworkList): Promise<void> {
  const path = join(directory, file);
  const text = `${JSON.stringify(list, undefined, 2)}\n`;
  await mkdir(directory, { recursive: true, mode: 0o755 });
  if ((await readFile(path, 'utf8').catch(() => undefined)) === text) return; // a rewrite makes runtimes load it again
  const temporary = join(directory, `.${file}.${randomUUID()}`);
  await writeFile(temporary, text, { mode: 0o600, flag: 'wx' });
  await rename(temporary, path);
}

/** A network configuration that runtimes take before ours: they go by the order of names. */
export async function conflistBefore(directory: string, file: string): Promise<string | undefined> {
  const names = await readdir(directory).catch(() => []);
  return names
    .filter((name) => /\.(conflist|conf|json)$/.test(name) && !name.startsWith('.'))
    .sort()
    .find((name) => name < file);
}
