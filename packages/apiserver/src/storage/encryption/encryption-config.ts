import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorText } from '@oarlock/primitives/error-text';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { StorageDriver } from '@oarlock/spi/storage';
import { parse } from 'yaml';
import { z } from 'zod';
import type { EncryptionRule } from './encrypted-storage.ts';
import { aesCbc, aesGcm, identity, type Transformer } from './transformers.ts';

const keyName = z.string().regex(/^[^:\s]{1,253}$/, 'a name without colons and spaces');

/** The configuration of encryption at rest: the resources to encrypt, and the keys. */
export const encryptionSchema = z
  .strictObject({
    /** The path of an EncryptionConfiguration of upstream, which replaces `resources` and `keys`. */
    file: z.string().min(1).optional(),
    resources: z.array(z.string().min(1)).min(1).default(['secrets']),
    /**
     * The encryption keys. The first key encrypts, all keys decrypt. Each file contains 16, 24 or 32 bytes in base64. By default one key is
     * generated at the first start.
     */
    keys: z.array(z.strictObject({ name: keyName, file: z.string().min(1) })).default([]),
  })
  .refine(({ keys }) => new Set(keys.map(({ name }) => name)).size === keys.length, {
    path: ['keys'],
    message: 'key names must be unique',
  });
export type EncryptionConfig = z.output<typeof encryptionSchema>;

const secretKeys = z.strictObject({
  keys: z.array(z.strictObject({ name: keyName, secret: z.string().min(1) })).min(1),
});
/** The EncryptionConfiguration of `apiserver.config.k8s.io/v1`. */
const configurationSchema = z.object({
  kind: z.literal('EncryptionConfiguration'),
  apiVersion: z.literal('apiserver.config.k8s.io/v1'),
  resources: z
    .array(
      z.strictObject({
        resources: z.array(z.string().min(1)).min(1),
        providers: z
          .array(
            z.union([
              z.strictObject({ aesgcm: secretKeys }),
              z.strictObject({ aescbc: secretKeys }),
              z.strictObject({ identity: z.strictObject({}).nullable() }),
            ]),
          )
          .min(1),
      }),
    )
    .min(1),
});

const keyBytes: ReadonlySet<number> = new Set([16, 24, 32]);

function decodeKey(text: string, where: string): Buffer {
  const key = Buffer.from(text.trim(), 'base64');
  if (!keyBytes.has(key.length)) throw new Error(`${where} is not a valid key: expected 16, 24 or 32 bytes in base64, got ${key.length}`);
  return key;
}

/** Reads a file that contains a secret. @throws Error if other users than its owner may read the file */
async function readSecret(file: string): Promise<string> {
  const { mode } = await stat(file);
  if (process.platform !== 'win32' && (mode & 0o077) !== 0)
    throw new Error(`${file} must not be readable by users other than its owner: run chmod 600 ${file}`);
  return readFile(file, 'utf8');
}

/**
 * Matches the file names of generated keys. The first key has the name `generated`; the names of later keys contain the time of creation, so that
 * the last name in order is the newest key. A key in a file `NAME.next.key` only decrypts: API servers that share a storage first all receive the
 * key, and encrypt with it afterwards.
 */
const generatedKeyFile = /^(generated(?:-\d{8}T\d{9}Z)?)(\.next)?\.key$/;

export interface EncryptionKey {
  readonly name: string;
  readonly key: Buffer;
}

/**
 * Returns the generated keys in `directory`, the newest first, and then the keys that only decrypt; an empty list if the directory does not exist.
 * @throws Error if a key is invalid
 */
export async function readGeneratedKeys(directory: string): Promise<readonly EncryptionKey[]> {
  const files = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const matches = files.flatMap((file) => {
    const [, name, next] = generatedKeyFile.exec(file) ?? [];
    return name === undefined ? [] : [{ file: join(directory, file), name, isNext: next !== undefined }];
  });
  matches.sort((a, b) => Number(a.isNext) - Number(b.isNext) || (a.name < b.name ? 1 : -1));
  return Promise.all(matches.map(async ({ file, name }) => ({ name, key: decodeKey(await readSecret(file), file) })));
}

/** Returns the generated key with a file name and content; undefined if the file is not a generated key. @throws Error if the key is invalid */
export function parseGeneratedKey(file: string, content: string): EncryptionKey | undefined {
  const name = generatedKeyFile.exec(file)?.[1];
  return name === undefined ? undefined : { name, key: decodeKey(content, file) };
}

/**
 * Creates a new generated key in `directory` and returns its name. The API server encrypts with the key when it reads the directory again, or with
 * `next` only decrypts with it, until `useNextGeneratedKey`.
 */
export async function addGeneratedKey(directory: string, now: Date, { next = false }: { readonly next?: boolean } = {}): Promise<string> {
  const keys = await readGeneratedKeys(directory);
  const name = keys.length === 0 ? 'generated' : `generated-${now.toISOString().replaceAll(/[-:.]/g, '')}`;
  await writeGeneratedKey(join(directory, `${name}${next ? '.next' : ''}.key`));
  return name;
}

/** Makes the key that only decrypts the one that encrypts. @throws Error if there is no such key */
export async function useNextGeneratedKey(directory: string): Promise<void> {
  const next = (await readdir(directory)).find((file) => file.endsWith('.next.key') && generatedKeyFile.test(file));
  if (next === undefined) throw new Error('there is no next encryption key: add one first');
  await rename(join(directory, next), join(directory, next.replace('.next.key', '.key')));
}

/** Deletes the generated keys with these names. */
export async function removeGeneratedKeys(directory: string, names: readonly string[]): Promise<void> {
  await Promise.all(names.map((name) => rm(join(directory, `${name}.key`))));
}

/** Writes a new random key to a file atomically. */
async function writeGeneratedKey(file: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeAtomic(file, `${randomBytes(32).toString('base64')}\n`, { temporary: `${file}.tmp`, sync: true });
}

/**
 * Loads the keys of the configuration and returns the encryption rules. `directory` contains the generated keys.
 * @throws Error with the file name and the reason if a file is invalid
 */
export async function loadEncryption(settings: EncryptionConfig, directory: string): Promise<readonly EncryptionRule[]> {
  if (settings.file !== undefined) return readConfiguration(settings.file);
  if (settings.keys.length > 0) {
    const keys = await Promise.all(settings.keys.map(async ({ name, file }) => ({ name, key: decodeKey(await readSecret(file), file) })));
    return rulesFor(settings.resources, keys);
  }
  const generated = await readGeneratedKeys(directory);
  if (generated.length > 0) return rulesFor(settings.resources, generated);
  await writeGeneratedKey(join(directory, 'generated.key'));
  return rulesFor(settings.resources, await readGeneratedKeys(directory));
}

/**
 * Returns the rules for a configuration without `encryption`: Secrets are encrypted with generated keys if such keys exist or the storage is empty,
 * so that an existing data directory without keys stays unencrypted. Returns no rules if the storage is not durable. Creates no key if other
 * processes write the storage too: with a key in this data directory alone, they could not read the values.
 */
export async function loadDefaultEncryption(storage: StorageDriver, directory: string): Promise<readonly EncryptionRule[]> {
  if (!canEncryptByDefault(storage)) return [];
  if ((await readGeneratedKeys(directory)).length === 0) {
    if (storage.traits.shared) return [];
    const { entries } = await storage.range({ prefix: '', limit: 1 });
    if (entries.length > 0) return [];
  }
  return loadEncryption(encryptionSchema.parse({}), directory);
}

/** Returns true if values of the storage can be encrypted with generated keys. */
export const canEncryptByDefault = ({ traits }: StorageDriver): boolean => traits.durable;

/** Returns the rules for resources: values are written with the first key, and read with any of the keys or unencrypted. */
export function rulesFor(resources: readonly string[], keys: readonly EncryptionKey[]): readonly EncryptionRule[] {
  return [{ resources, transformers: atLeastOne([...keys.map(({ name, key }) => aesGcm(name, key)), identity]) }];
}

/** Parses YAML that contains keys. Messages and warnings of the parser do not quote the text. */
function parseYaml(text: string, file: string): unknown {
  try {
    return parse(text, { prettyErrors: false, logLevel: 'error' });
  } catch (cause) {
    throw new Error(`${file} is no YAML: ${errorText(cause)}`, { cause });
  }
}

async function readConfiguration(file: string): Promise<readonly EncryptionRule[]> {
  const parsed = configurationSchema.safeParse(parseYaml(await readSecret(file), file));
  if (!parsed.success) throw new Error(`${file} is not a valid EncryptionConfiguration: ${z.prettifyError(parsed.error)}`);
  return parsed.data.resources.map(({ resources, providers }) => ({
    resources,
    transformers: atLeastOne(
      providers.flatMap((provider): Transformer[] => {
        if ('identity' in provider) return [identity];
        const [make, { keys }] = 'aesgcm' in provider ? [aesGcm, provider.aesgcm] : [aesCbc, provider.aescbc];
        return keys.map(({ name, secret }) => make(name, decodeKey(secret, `${file}: key ${name}`)));
      }),
    ),
  }));
}

function atLeastOne(transformers: readonly Transformer[]): readonly [Transformer, ...Transformer[]] {
  const [first, ...rest] = transformers;
  if (first === undefined) throw new Error('no key is configured for writing');
  return [first, ...rest];
}
