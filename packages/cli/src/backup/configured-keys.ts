import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { encryptionOf } from '@oarlock/cluster/composition/cluster-facts';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { CommandError } from '../common/command-error.ts';
import type { BackedUpFile } from './backup-file.ts';

/** Directory, in a backup, of the encryption keys that a cluster file names; the name of each file is that of its key. */
const keysDirectory = 'encryption/keys/';
/** Path, in a backup, of the EncryptionConfiguration that a cluster file names. */
const configurationPath = 'encryption/configuration';
/** Directory below the data directory for keys that the cluster file of a restore does not name. */
const unnamedDirectory = 'restored-encryption';

/** Returns true if a file of a backup is an encryption key that a cluster file named. */
export const isConfiguredKey = ({ file }: BackedUpFile): boolean => file === configurationPath || file.startsWith(keysDirectory);

/** Yields the encryption keys that a cluster file names, which may be anywhere on the machine. */
export async function* configuredKeyFiles(clusterFile: ClusterFile): AsyncGenerator<BackedUpFile> {
  const encryption = encryptionOf(clusterFile);
  if (encryption === undefined) return;
  const { file, keys } = encryption;
  const read = async (path: string) => (await readFile(path)).toString('base64');
  if (file !== undefined) yield { file: configurationPath, content: await read(file) };
  else for (const key of keys) yield { file: keysDirectory + encodeURIComponent(key.name), content: await read(key.file) };
}

/**
 * Writes an encryption key to the file that the cluster file names, or below the data directory if it names none. Returns a sentence for the user about
 * a key that the cluster file does not name. @throws CommandError if the file has other content
 */
export async function restoreConfiguredKey(line: BackedUpFile, clusterFile: ClusterFile, dataDir: string): Promise<string | undefined> {
  const named = namedPath(line, clusterFile);
  const path = named ?? join(dataDir, unnamedDirectory, configuredKeyFileName(line));
  const content = Buffer.from(line.content, 'base64');
  if (existsSync(path)) {
    if (!(await readFile(path)).equals(content))
      throw new CommandError(
        `${path} differs from the key in the backup: restore with a cluster.yaml that names another file, or with --no-keys`,
      );
  } else {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(path, content.toString('utf8'));
  }
  if (named !== undefined) return undefined;
  return `${path} is an encryption key of the backup that the cluster.yaml does not name: name it in spec.encryption to read the values that it encrypts`;
}

function namedPath({ file }: BackedUpFile, clusterFile: ClusterFile): string | undefined {
  const encryption = encryptionOf(clusterFile);
  if (file === configurationPath) return encryption?.file;
  const name = keyName(file);
  return encryption?.keys.find((key) => key.name === name)?.file;
}

/** Returns the name of a key in a backup. @throws CommandError if it is not valid */
function keyName(file: string): string {
  try {
    return decodeURIComponent(file.slice(keysDirectory.length));
  } catch (cause) {
    throw new CommandError(`the backup contains ${JSON.stringify(file)}, which is not the name of a key`, undefined, { cause });
  }
}

/** Returns a file name without separators, because a backup may come from anywhere. */
export const configuredKeyFileName = ({ file }: BackedUpFile): string =>
  file === configurationPath ? 'configuration' : `key-${encodeURIComponent(keyName(file))}`;
