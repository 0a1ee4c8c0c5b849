import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import type { EncryptionRule } from './encrypted-storage.ts';
import { aesCbc, aesGcm, identity, type Transformer } from './transformers.ts';

const keyName = z.string().regex(/^[^:\s]{1,253}$/, 'a name without colons and spaces');

/** Configures which resources are encrypted at rest, and with which keys. */
export const encryptionSchema = z
  .strictObject({
    /** Path of an upstream EncryptionConfiguration; replaces the other two. */
    file: z.string().min(1).optional(),
    resources: z.array(z.string().min(1)).min(1).default(['secrets']),
    /** The first key writes, all of them read. Each file holds 16, 24 or 32 bytes in base64. By default one key is generated at the first start. */
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
/** `apiserver.config.k8s.io/v1`. */
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

/** Reads a file that only its owner may read. @throws Error if the mode permits others */
async function readSecret(file: string): Promise<string> {
  const { mode } = await stat(file);
  if (process.platform !== 'win32' && (mode & 0o077) !== 0)
    throw new Error(`${file} must not be readable by users other than its owner: run chmod 600 ${file}`);
  return readFile(file, 'utf8');
}

/** Returns the generated key, and creates its file atomically if it is missing. */
async function generatedKey(file: string): Promise<string> {
  try {
    return await readSecret(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const text = `${randomBytes(32).toString('base64')}\n`;
  const handle = await open(`${file}.tmp`, 'w', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${file}.tmp`, file);
  const directory = await open(dirname(file), 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
  return text;
}

/**
 * Loads the keys. `directory` holds the generated key.
 * @throws Error with the file name and the reason
 */
export async function loadEncryption(settings: EncryptionConfig, directory: string): Promise<readonly EncryptionRule[]> {
  if (settings.file !== undefined) return readConfiguration(settings.file);
  const keys =
    settings.keys.length > 0
      ? await Promise.all(settings.keys.map(async ({ name, file }) => ({ name, key: decodeKey(await readSecret(file), file) })))
      : [{ name: 'generated', key: decodeKey(await generatedKey(join(directory, 'generated.key')), join(directory, 'generated.key')) }];
  const sealing = keys.map(({ name, key }) => aesGcm(name, key));
  return [{ resources: settings.resources, transformers: atLeastOne([...sealing, identity]) }];
}

async function readConfiguration(file: string): Promise<readonly EncryptionRule[]> {
  const parsed = configurationSchema.safeParse(parse(await readSecret(file)));
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
