import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { NetworkList } from './cni-protocol.ts';

/**
 * What was written into a directory for runtimes, and by whose node. Not a name that runtimes read: libcni takes every `.conf`, `.conflist` and `.json`,
 * those that begin with a dot too.
 */
export const ledgerFile = '.oarlock-written';

interface Written {
  /** The directory that the plugins of a node have their data in. */
  readonly owner: string;
  /** Of the text, hexadecimal SHA-256. */
  readonly digest: string;
}
type Ledger = Readonly<Record<string, Written>>;

export interface Conflist {
  /** Where runtimes look. */
  readonly directory: string;
  readonly file: string;
  /** Of the plugin that writes it: what others of the same node wrote here before is taken away. */
  readonly dataDir: string;
}

/**
 * Puts the list where runtimes that call CNI themselves look. Whole or not at all; untouched when it is there already. What another network plugin
 * of this node left there goes: runtimes take the first by its name, whichever plugin is configured. What anybody else wrote or changed stays.
 * Gives the names of what was taken away.
 */
export async function writeConflist({ directory, file, dataDir }: Conflist, list: NetworkList): Promise<readonly string[]> {
  const owner = dirname(dataDir);
  const text = `${JSON.stringify(list, undefined, 2)}\n`;
  await mkdir(directory, { recursive: true, mode: 0o755 });
  const ledger = await readLedger(directory);
  const others = Object.entries(ledger).filter(([name, written]) => written.owner === owner && name !== file);
  const gone: string[] = [];
  for (const [name, { digest }] of others) {
    const present = await readFile(join(directory, name), 'utf8').catch(unlessAbsent);
    if (present === undefined || digestOf(present) !== digest) continue;
    await rm(join(directory, name), { force: true });
    gone.push(name);
  }
  const left = Object.fromEntries(Object.entries(ledger).filter(([name]) => !others.some(([other]) => other === name)));
  const next: Ledger = { ...left, [file]: { owner, digest: digestOf(text) } };
  if (JSON.stringify(next) !== JSON.stringify(ledger)) await writeWhole(directory, ledgerFile, `${JSON.stringify(next, undefined, 2)}\n`);
  // a rewrite makes runtimes load it again
  if ((await readFile(join(directory, file), 'utf8').catch(unlessAbsent)) !== text) await writeWhole(directory, file, text);
  return gone;
}

/** A network configuration that runtimes take before ours: they go by the order of names. */
export async function conflistBefore(directory: string, file: string): Promise<string | undefined> {
  const names = await readdir(directory).catch(() => []);
  return names
    .filter((name) => /\.(conflist|conf|json)$/.test(name) && !name.startsWith('.'))
    .sort()
    .find((name) => name < file);
}

/** What cannot be read was not written here: then nothing is taken away. */
async function readLedger(directory: string): Promise<Ledger> {
  const text = await readFile(join(directory, ledgerFile), 'utf8').catch(unlessAbsent);
  if (text === undefined) return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return {};
  }
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, Written] => isFileName(entry[0]) && isWritten(entry[1])),
  );
}

const isFileName = (name: string) => /^[a-zA-Z0-9][a-zA-Z0-9._-]*\.conflist$/.test(name);
function isWritten(value: unknown): value is Written {
  const { owner, digest } = (value ?? {}) as Partial<Written>;
  return typeof owner === 'string' && typeof digest === 'string';
}
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex');

async function writeWhole(directory: string, file: string, text: string): Promise<void> {
  const temporary = join(directory, `.${file}.${randomUUID()}`);
  await writeFile(temporary, text, { mode: 0o600, flag: 'wx' });
  await rename(temporary, join(directory, file));
}

function unlessAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
