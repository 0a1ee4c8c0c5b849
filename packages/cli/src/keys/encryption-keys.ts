import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { addGeneratedKey, readGeneratedKeys, removeGeneratedKeys } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { readProcessState } from '@oarlock/cluster/process/process-state';
import { openReader, type ReadPage } from '../backup/backup.ts';
import { areKeysShared } from '../common/are-keys-shared.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { progress } from '../common/progress/progress.ts';
import { withSharedKeys, type SharedKeysOptions } from './shared-key-rotation.ts';

export interface EncryptionKeyOptions extends SharedKeysOptions {
  readonly file?: string;
}

const rewriteCommand = 'kubectl get secrets -A -o json | kubectl replace -f -';

/** Takes one step of a rotation of the generated encryption keys. @throws CommandError if the step is not possible now */
export async function rotateEncryptionKey(step: 'add' | 'end', options: EncryptionKeyOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  if (areKeysShared(dataDir)) return rotateSharedEncryptionKey(step, { ...options, dataDir });
  const directory = join(dataDir, 'plugins', 'apiserver', 'encryption');
  const [newest, ...former] = await readGeneratedKeys(directory);
  if (newest === undefined)
    throw new CommandError(
      `${directory} has no generated key: Secrets of this data directory are not encrypted, or spec.encryption names the keys`,
      exitCodes.usage,
    );
  if (step === 'add') {
    const name = await addGeneratedKey(directory, new Date());
    process.stdout.write(`Added the key ${name}. Restart the API server of ${dataDir}, then encrypt all Secrets with the new key:

  ${rewriteCommand}

When all values use the new key, delete the former keys with \`oarlock keys encryption end\`.
`);
    return;
  }
  if (former.length === 0) throw new CommandError('there is no former encryption key', exitCodes.usage);
  const names = former.map(({ name }) => name);
  await requireStartedAfter(dataDir, join(directory, `${newest.name}.key`));
  await requireUnused(dataDir, options, names);
  await removeGeneratedKeys(directory, names);
  process.stdout.write(`Deleted the former keys: ${names.join(', ')}. Backups made before the rotation contain them.\n`);
}

/** Takes one step of a rotation that all servers apply while they run. */
async function rotateSharedEncryptionKey(step: 'add' | 'end', options: EncryptionKeyOptions): Promise<void> {
  const { dataDir } = options;
  await withSharedKeys(options, async (rotation) => {
    if (step === 'add') return rotation.addAndUse('encryption');
    const { identity } = await rotation.status();
    const [, ...former] = (identity['encryptionKeys'] ?? [])
      .map((id) => id.slice(0, id.indexOf(':')))
      .sort()
      .reverse();
    await requireUnused(dataDir, options, former);
    progress.step('deleting the former keys');
    await rotation.step('encryption', 'end');
    await rotation.whenApplied();
  });
  process.stdout.write(
    step === 'add'
      ? `All servers now encrypt with a new key. Encrypt all Secrets with it:

  ${rewriteCommand}

When all values use the new key, delete the former keys with \`oarlock keys encryption end\`.
`
      : 'Deleted the former keys on all servers. Backups made before the rotation contain them.\n',
  );
}

/** @throws CommandError if a stored value is encrypted with one of the named keys */
async function requireUnused(dataDir: string, options: EncryptionKeyOptions, names: readonly string[]): Promise<void> {
  progress.step('reading the stored values');
  const { read, close } = await openReader(dataDir, { ...options, keys: true });
  try {
    const used = await firstKeyWith(read, names);
    if (used !== undefined) throw new CommandError(`${used} is still encrypted with a former key: run \`${rewriteCommand}\` first`);
  } finally {
    await close();
  }
}

/**
 * Checks that the API server was started after the newest key was added; an earlier one still writes with a former key.
 * @throws CommandError if the API server was started before
 */
async function requireStartedAfter(dataDir: string, keyFile: string): Promise<void> {
  const running = await readProcessState(dataDir);
  if (running !== undefined && (running.startedAt ?? 0) <= (await stat(keyFile)).mtimeMs)
    throw new CommandError(`the API server of ${dataDir} has run since before the newest key was added: restart it first`);
}

/** Returns the storage key of a value that is encrypted with one of the named keys, or undefined if there is none. */
async function firstKeyWith(read: ReadPage, names: readonly string[]): Promise<string | undefined> {
  const prefixes = names.map((name) => `k8s:enc:aesgcm:v1:${name}:`);
  let checked = 0;
  for (let page = await read(); ; ) {
    checked += page.entries.length;
    progress.detail(`${checked.toLocaleString('en')} values`);
    const found = page.entries.find(({ value }) => {
      const start = Buffer.from(value.slice(0, 400), 'base64').toString('latin1');
      return prefixes.some((prefix) => start.startsWith(prefix));
    });
    if (found !== undefined) return found.key;
    const after = page.entries.at(-1)?.key;
    if (!page.more || after === undefined) return undefined;
    page = await read(page.revision, after);
  }
}
