import { createPrivateKey } from 'node:crypto';
import { join } from 'node:path';
import { isObject } from '@oarlock/api/json/json';
import type { Revision, StorageDriver } from '@oarlock/spi/storage';
import { z } from 'zod';
import { version } from '../process/version.ts';
import { identityOf, pkiDirectory, type KeyFiles } from './key-files.ts';
import { seal, unseal } from './sealed-box.ts';

/** Storage key of the record; outside of the keys of API objects. */
export const recordKey = '/oarlock/cluster';
/** Format of the record that this version writes and the highest that it reads. */
const recordFormat = 1;
/** Format of the stored API objects. */
const storageFormat = 1;
const [keysPurpose, accessPurpose] = ['cluster keys', 'cluster key for holders of the CA key'];

const hashes = z.array(z.string()).max(256).readonly();
const recordSchema = z.object({
  format: z.int(),
  storageFormat: z.int(),
  /** Version of Oarlock that wrote the record last. */
  version: z.string(),
  cluster: z.string(),
  createdAt: z.string(),
  /** Increases by 1 with every change of the keys. */
  generation: z.int().min(1),
  identity: z.object({
    ca: hashes,
    removedCa: hashes,
    frontProxyCa: hashes,
    serviceAccountKeys: hashes,
    encryptionKeys: hashes,
    /** Absent in records of versions without a rotation of this CA. */
    etcdCa: hashes.optional(),
  }),
  /** The cluster key, sealed with the private key of the signing CA: a server whose keys were copied by hand obtains the cluster key with it. */
  sealedClusterKey: z.string(),
  /** The contents of the shared key files and the cluster file, sealed with the cluster key. */
  sealedKeys: z.string(),
});
export type ClusterRecord = z.output<typeof recordSchema>;

/** The sealed part of the record. */
export interface SharedMaterial {
  readonly files: KeyFiles;
  /** The cluster document of the first server, from which a joining server without a cluster file starts. */
  readonly document?: unknown;
}

/** A record as it is stored. */
export interface StoredRecord {
  readonly record: ClusterRecord;
  /** The record in JSON. */
  readonly text: string;
  /** The revision of the record's last change. */
  readonly revision: Revision;
  /** The revision of the store at which the record was read. */
  readonly readRevision: Revision;
}

/** The error if a server must not use a storage. The message is a sentence for the administrator, with the command that helps. */
export class ClusterIdentityError extends Error {
  override readonly name = 'ClusterIdentityError';
}

/** Returns the record in a storage, or undefined if there is none. @throws ClusterIdentityError if a later version wrote it */
export async function readRecord(storage: Pick<StorageDriver, 'get'>): Promise<StoredRecord | undefined> {
  const { entry, revision: readRevision } = await storage.get(recordKey);
  if (entry === undefined) return undefined;
  const text = Buffer.from(entry.value).toString('utf8');
  return { record: parseRecord(text), text, revision: entry.revision, readRevision };
}

/** Parses a record. @throws ClusterIdentityError if a later version wrote it or if it is not a record */
export function parseRecord(text: string): ClusterRecord {
  const value = parseObject(text);
  if (Number(value.format) > recordFormat || Number(value.storageFormat) > storageFormat)
    throw new ClusterIdentityError(
      `the storage belongs to a cluster of Oarlock ${String(value.version)}, whose storage format this version cannot read: run that version or a later one`,
    );
  const parsed = recordSchema.safeParse(value);
  if (!parsed.success) throw new ClusterIdentityError(`the cluster record ${recordKey} is not valid: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

/** Returns an object in JSON, or an empty one for other text. */
function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

export interface RecordFacts {
  readonly cluster: string;
  readonly version: string;
  readonly createdAt: string;
  readonly generation: number;
}

/** Returns the record of keys. */
export function newRecord(facts: RecordFacts, clusterKey: Uint8Array, material: SharedMaterial): ClusterRecord {
  const caKey = material.files[join(pkiDirectory, 'ca.key')];
  if (caKey === undefined)
    throw new ClusterIdentityError('this server has no key of the cluster CA (pki/ca.key), which all API servers need');
  return {
    format: recordFormat,
    storageFormat,
    ...facts,
    identity: identityOf(material.files),
    sealedClusterKey: seal(secretOf(caKey), accessPurpose, Buffer.from(clusterKey).toString('base64')),
    sealedKeys: seal(clusterKey, keysPurpose, JSON.stringify(material)),
  };
}

/** Returns the record of the next generation, with other keys. */
export function nextRecord(
  { cluster, createdAt, generation }: ClusterRecord,
  clusterKey: Uint8Array,
  material: SharedMaterial,
): ClusterRecord {
  return newRecord({ cluster, createdAt, version, generation: generation + 1 }, clusterKey, material);
}

/** Decrypts the keys of a record. @throws Error if the cluster key is that of another cluster */
export const openRecord = ({ sealedKeys }: ClusterRecord, clusterKey: Uint8Array): SharedMaterial =>
  JSON.parse(unseal(clusterKey, keysPurpose, sealedKeys)) as SharedMaterial;

/** Returns the cluster key of a record, to a holder of the key of the signing CA. @throws Error if the CA is another one */
export const clusterKeyOf = ({ sealedClusterKey }: ClusterRecord, caKey: string): Buffer =>
  Buffer.from(unseal(secretOf(caKey), accessPurpose, sealedClusterKey), 'base64');

/** Writes a record if the stored one has not changed since `revision`; 0 if there must be none. Returns false if it has changed. */
export async function writeRecord(storage: Pick<StorageDriver, 'commit'>, record: ClusterRecord, revision: Revision): Promise<boolean> {
  const { ok } = await storage.commit([{ key: recordKey, value: Buffer.from(JSON.stringify(record)) }], [{ key: recordKey, revision }]);
  return ok;
}

/** Returns the bytes of a private key, independent of its PEM formatting. */
const secretOf = (pem: string): Buffer => createPrivateKey(pem).export({ type: 'pkcs8', format: 'der' });
