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

/** CNI specification 1.1, section 1: `cniVersions` are all that it can be run with. Runtimes that do not know it go by `cniVersion`. */
export interface WrittenList extends NetworkList {
  readonly cniVersions?: readonly string[];
}

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
export async function writeConflist({ directory, file, dataDir }: Conflist, list: WrittenList): Promise<readonly string[]> {
  const owner = dirname(dataDir);
  const text = `${JSON.stringify(list, undefined, 2)}\n`;
  await mkdir(directory, { recursive: true, mode: 0o755 });
  const ledger = await readLedger(directory);
  const { gone, left } = await takeAway(directory, ledger, (name, written) => written.owner === owner && name !== file);
  const next: Ledger = { ...left, [file]: { owner, digest: digestOf(text) } };
  if (JSON.stringify(next) !== JSON.stringify(ledger)) await writeWhole(directory, ledgerFile, ledgerText(next));
  // a rewrite makes runtimes load it again
  if ((await readFile(join(directory, file), 'utf8').catch(unlessAbsent)) !== text) await writeWhole(directory, file, text);
  return gone;
}

/**
 * What network plugins of this node left there goes, for a plugin that has no conflist: runtimes would go on by it. What anybody else wrote or changed
 * stays. Gives the names of what was taken away.
 */
export async function removeConflists({ directory, dataDir }: Pick<Conflist, 'directory' | 'dataDir'>): Promise<readonly string[]> {
  const owner = dirname(dataDir);
  const ledger = await readLedger(directory);
  const { gone, left } = await takeAway(directory, ledger, (_name, written) => written.owner === owner);
  const count = Object.keys(left).length;
  if (count === Object.keys(ledger).length) return gone;
  if (count === 0) await rm(join(directory, ledgerFile), { force: true });
  else await writeWhole(directory, ledgerFile, ledgerText(left));
  return gone;
}

/** Removes the files that are as they were written, and forgets all that are meant. */
async function takeAway(
  directory: string,
  ledger: Ledger,
  isMeant: (name: string, written: Written) => boolean,
): Promise<{ readonly gone: readonly string[]; readonly left: Ledger }> {
  const gone: string[] = [];
  const left: Record<string, Written> = {};
  for (const [name, written] of Object.entries(ledger)) {
    if (!isMeant(name, written)) {
      left[name] = written;
      continue;
    }
    const present = await readFile(join(directory, name), 'utf8').catch(unlessAbsent);
    if (present === undefined || digestOf(present) !== written.digest) continue;
    await rm(join(directory, name), { force: true });
    gone.push(name);
  }
  return { gone, left };
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
const ledgerText = (ledger: Ledger) => `${JSON.stringify(ledger, undefined, 2)}\n`;
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex');

async function writeWhole(directory: string, file: string, text: string): Promise<void> {
  const temporary = join(directory, `.${file}.${randomUUID()}`);
  await writeFile(temporary, text, { mode: 0o600, flag: 'wx' });
  await rename(temporary, join(directory, file));
}

function unlessAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
