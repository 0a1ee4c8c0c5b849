import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { NetworkList } from './protocol.ts';

/**
 * Name of the file that records which conflists of a directory Oarlock wrote, and for which node. The name has an extension that libcni does not
 * read: libcni reads every `.conf`, `.conflist` and `.json`, including names that begin with a dot.
 */
export const ledgerFile = '.oarlock-written';

interface LedgerEntry {
  /** Data directory of the plugins of the node that wrote the conflist. */
  readonly owner: string;
  /** SHA-256 of the conflist's text, in hex. */
  readonly digest: string;
}
type Ledger = Readonly<Record<string, LedgerEntry>>;

/**
 * A network configuration list whose `cniVersions` lists all supported versions (CNI specification 1.1, section 1). Older container runtimes read
 * `cniVersion`.
 */
export interface VersionedNetworkList extends NetworkList {
  readonly cniVersions?: readonly string[];
}

export interface Conflist {
  /** Directory from which container runtimes read conflists. */
  readonly directory: string;
  readonly file: string;
  /** Name of the network plugin. Conflists of other network plugins of the same node are removed. */
  readonly dataDir: string;
}

/**
 * Writes the conflist for container runtimes that call CNI plugins themselves: atomically, and only if the content differs. Removes conflists of
 * other network plugins of this node, because runtimes use the first conflist by name. Keeps files that Oarlock did not write or that were
 * changed. Returns the names of the removed files.
 */
export async function writeConflist({ directory, file, dataDir }: Conflist, list: VersionedNetworkList): Promise<readonly string[]> {
  const owner = dirname(dataDir);
  const text = `${JSON.stringify(list, undefined, 2)}\n`;
  await mkdir(directory, { recursive: true, mode: 0o755 });
  const ledger = await readLedger(directory);
  const { gone, left } = await removeEntries(directory, ledger, (name, ownFiles) => ownFiles.owner === owner && name !== file);
  const next: Ledger = { ...left, [file]: { owner, digest: digestOf(text) } };
  if (JSON.stringify(next) !== JSON.stringify(ledger)) await writeAtomic(join(directory, ledgerFile), ledgerText(next));
  // runtimes reload a file that is written
  if ((await readFile(join(directory, file), 'utf8').catch(ignoreNotFound)) !== text) await writeAtomic(join(directory, file), text);
  return gone;
}

/**
 * Removes the conflists of this node's network plugins. A network plugin without a conflist calls this, because container runtimes would
 * continue to use an old conflist. Keeps files that Oarlock did not write or that were changed. Returns the names of the removed files.
 */
export async function removeConflists({ directory, dataDir }: Pick<Conflist, 'directory' | 'dataDir'>): Promise<readonly string[]> {
  const owner = dirname(dataDir);
  const ledger = await readLedger(directory);
  const { gone, left } = await removeEntries(directory, ledger, (_name, ownFiles) => ownFiles.owner === owner);
  const count = Object.keys(left).length;
  if (count === Object.keys(ledger).length) return gone;
  if (count === 0) await rm(join(directory, ledgerFile), { force: true });
  else await writeAtomic(join(directory, ledgerFile), ledgerText(left));
  return gone;
}

/** Removes the files that are unchanged since Oarlock wrote them, and the records of all given entries. */
async function removeEntries(
  directory: string,
  ledger: Ledger,
  isMeant: (name: string, ownFiles: LedgerEntry) => boolean,
): Promise<{ readonly gone: readonly string[]; readonly left: Ledger }> {
  const gone: string[] = [];
  const left: Record<string, LedgerEntry> = {};
  for (const [name, ownFiles] of Object.entries(ledger)) {
    if (!isMeant(name, ownFiles)) {
      left[name] = ownFiles;
      continue;
    }
    const present = await readFile(join(directory, name), 'utf8').catch(ignoreNotFound);
    if (present === undefined || digestOf(present) !== ownFiles.digest) continue;
    await rm(join(directory, name), { force: true });
    gone.push(name);
  }
  return { gone, left };
}

/** Returns the name of a conflist that sorts before `file`, which container runtimes therefore prefer, or undefined. */
export async function conflistBefore(directory: string, file: string): Promise<string | undefined> {
  const names = await readdir(directory).catch(() => []);
  return names
    .filter((name) => /\.(conflist|conf|json)$/.test(name) && !name.startsWith('.'))
    .sort()
    .find((name) => name < file);
}

/** Returns the name of the conflist that a node has written, by the data directory of its plugins. */
export async function conflistOf(directory: string, owner: string): Promise<string | undefined> {
  return Object.entries(await readLedger(directory)).find(([, entry]) => entry.owner === owner)?.[0];
}

/** Reads the records of written conflists. Returns no records if the file cannot be parsed, so that no conflist is removed. */
async function readLedger(directory: string): Promise<Ledger> {
  const text = await readFile(join(directory, ledgerFile), 'utf8').catch(ignoreNotFound);
  if (text === undefined) return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return {};
  }
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, LedgerEntry] => isFileName(entry[0]) && isWritten(entry[1])),
  );
}

const isFileName = (name: string) => /^[a-zA-Z0-9][a-zA-Z0-9._-]*\.conflist$/.test(name);
function isWritten(value: unknown): value is LedgerEntry {
  const { owner, digest } = (value ?? {}) as Partial<LedgerEntry>;
  return typeof owner === 'string' && typeof digest === 'string';
}
const ledgerText = (ledger: Ledger) => `${JSON.stringify(ledger, undefined, 2)}\n`;
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex');

function ignoreNotFound(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
