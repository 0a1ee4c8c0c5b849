import { basename, dirname, join, normalize } from 'node:path';
import {
  encryptionSchema,
  loadEncryption,
  parseGeneratedKey,
  readGeneratedKeys,
  rulesFor,
} from '@oarlock/apiserver/storage/encryption/encryption-config';
import type { EncryptionRule } from '@oarlock/apiserver/storage/encryption/encrypted-storage';
import { isEncrypted, startsWith } from '@oarlock/apiserver/storage/encryption/transformers';
import { encryptionOf } from '@oarlock/cluster/composition/cluster-facts';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { CommandError } from '../common/command-error.ts';
import { isFile, readBackup } from './backup-file.ts';

export interface EncryptionCheck {
  /** Path of the backup. */
  readonly input: string;
  readonly dataDir: string;
  readonly clusterFile: ClusterFile;
  /** True if the keys in the backup are restored. */
  readonly keys: boolean;
}

/** Path of generated encryption keys in the data directory. */
const encryptionDirectory = join('plugins', 'apiserver', 'encryption');

/** Decrypts every encrypted value once. @throws CommandError if the restored cluster would lack the key of a value */
export async function checkEncryption({ input, dataDir, clusterFile, keys }: EncryptionCheck): Promise<void> {
  let rules: readonly EncryptionRule[] | undefined;
  for await (const line of readBackup(input)) {
    if (isFile(line)) continue;
    const value = Buffer.from(line.value, 'base64');
    if (!isEncrypted(value)) continue;
    rules ??= await encryptionRules(dataDir, clusterFile, keys ? input : undefined);
    if (!canDecrypt(rules, line.key, value))
      throw new CommandError(
        `the value of ${line.key} is encrypted, and no key decrypts it: restore a backup with keys, copy the keys of the old cluster to ${join(dataDir, encryptionDirectory)}, or name them in spec.encryption of the cluster file`,
      );
  }
}

/** Returns the encryption rules that the API server will have after the restore. */
async function encryptionRules(dataDir: string, file: ClusterFile, input: string | undefined): Promise<readonly EncryptionRule[]> {
  const configured = encryptionOf(file);
  const directory = join(dataDir, encryptionDirectory);
  if (configured !== undefined && (configured.file !== undefined || configured.keys.length > 0))
    return loadEncryption(configured, directory);
  const generated = [...(await readGeneratedKeys(directory))];
  if (input !== undefined)
    for await (const line of readBackup(input)) {
      const key =
        isFile(line) && dirname(normalize(line.file)) === encryptionDirectory
          ? parseGeneratedKey(basename(line.file), Buffer.from(line.content, 'base64').toString('utf8'))
          : undefined;
      if (key !== undefined) generated.push(key);
    }
  return generated.length === 0 ? [] : rulesFor(encryptionSchema.parse(configured ?? {}).resources, generated);
}

function canDecrypt(rules: readonly EncryptionRule[], key: string, value: Uint8Array): boolean {
  return rules
    .flatMap(({ transformers }) => transformers)
    .filter(({ prefix }) => prefix !== '' && startsWith(value, prefix))
    .some((transformer) => {
      try {
        transformer.transformFromStorage(value.subarray(transformer.prefix.length), key);
        return true;
      } catch {
        return false; // another transformer may have the key
      }
    });
}
