import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  addGeneratedKey,
  removeGeneratedKeys,
  readGeneratedKeys,
  useNextGeneratedKey,
} from '@oarlock/apiserver/storage/encryption/encryption-config';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { AuthorityError, type AuthorityName, type AuthorityStep } from '../pki/authorities.ts';
import {
  addServiceAccountKey,
  removeFormerServiceAccountKeys,
  rotateAuthority,
  useServiceAccountKey,
  type GeneratedTokenAlgorithm,
} from '../pki/keys.ts';
import { rotateStorageAuthority, storagePkiDirectory } from '../pki/storage-server.ts';
import { ClusterIdentityError, nextRecord, openRecord, readRecord, writeRecord, type ClusterRecord } from './cluster-record.ts';
import { encryptionDirectory, identityOf, pkiDirectory, readKeyFiles, writeKeyFiles, type KeyFiles } from './key-files.ts';
import { memberObstacle, pendingMembers } from './member-authorities.ts';
import type { ListedServer } from './server-registry.ts';

/** The keys that are rotated together. */
export const rotatedKeys = ['service-account', 'ca', 'front-proxy-ca', 'encryption', 'etcd-ca'] as const;
export type RotatedKeys = (typeof rotatedKeys)[number];
/**
 * A step of a rotation: `add` distributes the next key, which no server uses yet; `use` makes all servers sign or encrypt with it; `end` removes the
 * former keys.
 */
export type RotationStep = AuthorityStep;

/** A step of the rotation of some keys. */
export interface Rotation {
  readonly keys: RotatedKeys;
  readonly step: RotationStep;
  /** The algorithm of the next service account key, for the step `add`; by default that of the current key. */
  readonly algorithm?: GeneratedTokenAlgorithm | undefined;
}

/** The error if a rotation step is not possible now. The message is for the administrator. */
export class RotationError extends Error {
  override readonly name = 'RotationError';
}

export interface RotationOptions {
  readonly storage: StorageDriver;
  readonly dataDir: string;
  readonly clusterKey: Uint8Array;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly servers: readonly ListedServer[];
  /** The members of the storage; undefined if Oarlock does not run them. */
  readonly members?: readonly StorageMember[] | undefined;
}

/** Takes a step of a rotation in the cluster record, from which all servers obtain it. @throws RotationError if the step is not possible now */
export async function rotateKeys(rotation: Rotation, options: RotationOptions): Promise<ClusterRecord> {
  const { storage, clusterKey } = options;
  for (;;) {
    const stored = await readRecord(storage);
    if (stored === undefined) throw new ClusterIdentityError('the storage has no cluster record');
    const { record, revision } = stored;
    if (rotation.step !== 'add' && rotation.keys !== 'etcd-ca') requireApplied(rotation, record, options.servers);
    const material = openRecord(record, clusterKey);
    const files = await changedFiles(material.files, rotation, options);
    if (isDeepStrictEqual(files, material.files)) return record; // a repeated step
    if (rotation.keys === 'etcd-ca') requireMembers(identityOf(material.files).etcdCa ?? [], options);
    const next = nextRecord(record, clusterKey, { ...material, files });
    if (await writeRecord(storage, next, revision)) return next;
  }
}

/** @throws RotationError if a running server does not use the keys of the previous step yet */
function requireApplied(rotation: Rotation, record: ClusterRecord, servers: readonly ListedServer[]): void {
  const pending = pendingServers(rotation, record, servers);
  if (pending.length > 0)
    throw new RotationError(
      `${pending.join(', ')} ${pending.length === 1 ? 'does' : 'do'} not use the keys of the previous step yet: ${rotation.keys.endsWith('ca') ? 'restart each of them' : 'wait'}; \`oarlock keys status\` shows the progress`,
    );
}

/**
 * @throws RotationError if a member or its server does not run, or if a member does not use the CAs of the previous step yet. Members that are down would
 * reject the others afterward, and be rejected.
 */
function requireMembers(etcdCa: readonly string[], { members, servers }: RotationOptions): void {
  if (members === undefined)
    throw new RotationError(
      'Oarlock does not run the members of the storage: rotate the CA of an external etcd with the tools of that etcd',
    );
  const obstacle = memberObstacle(members, servers);
  if (obstacle !== undefined) throw new RotationError(obstacle);
  const pending = pendingMembers(etcdCa, servers);
  if (pending.length > 0)
    throw new RotationError(
      `the etcd ${pending.length === 1 ? 'member' : 'members'} of ${pending.join(', ')} ${pending.length === 1 ? 'does' : 'do'} not use the CAs of the previous step yet: wait; \`oarlock keys status\` shows the progress`,
    );
}

/** Returns the names of the running servers that do not use the keys of a step yet; the next step must wait for them. */
export function pendingServers(
  { keys, step }: Rotation,
  { generation, identity }: Pick<ClusterRecord, 'generation' | 'identity'>,
  servers: readonly ListedServer[],
): readonly string[] {
  if (keys === 'etcd-ca') return pendingMembers(identity.etcdCa ?? [], servers);
  const isDone = (server: ListedServer): boolean => {
    if (server.keysGeneration < generation) return false;
    if (keys !== 'ca' && keys !== 'front-proxy-ca') return true;
    const [known, loaded] = keys === 'ca' ? [identity.ca, server.trustedCAs] : [identity.frontProxyCa, server.frontProxyCAs];
    // before `use` each server trusts the next CA; before `end` each server signs with it
    return step === 'use' ? known.every((each) => loaded.includes(each)) : loaded[0] === known[0];
  };
  return servers.filter((server) => server.ready && !isDone(server)).map(({ name }) => name);
}

const temporaryPrefix = 'rotation-';

/** Removes the copies of keys that a process left in the data directory when it was killed during a step. */
export async function removeInterruptedRotations(dataDir: string): Promise<void> {
  const left = (await readdir(dataDir)).filter((name) => name.startsWith(temporaryPrefix));
  for (const name of left) await rm(join(dataDir, name), { recursive: true });
}

/** Returns the key files after a step. The step runs on a temporary copy of the files, which is removed. */
async function changedFiles(files: KeyFiles, rotation: Rotation, { dataDir, now }: RotationOptions): Promise<KeyFiles> {
  const directory = await mkdtemp(join(dataDir, temporaryPrefix));
  try {
    await writeKeyFiles(directory, files);
    await takeStep(directory, rotation, now);
    return await readKeyFiles(directory);
  } catch (error) {
    throw error instanceof AuthorityError ? new RotationError(error.message, { cause: error }) : error;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function takeStep(directory: string, { keys, step, algorithm }: Rotation, now: number): Promise<void> {
  const pki = join(directory, pkiDirectory);
  switch (keys) {
    case 'etcd-ca':
      return rotateStorageAuthority(join(directory, storagePkiDirectory), step);
    case 'ca':
    case 'front-proxy-ca':
      return rotateAuthority(pki, step, keys satisfies AuthorityName);
    case 'service-account':
      if (step === 'add') return addServiceAccountKey(pki, algorithm);
      return step === 'use' ? useServiceAccountKey(pki) : removeFormerServiceAccountKeys(pki);
    case 'encryption':
      return stepEncryption(join(directory, encryptionDirectory), step, now);
  }
}

async function stepEncryption(directory: string, step: RotationStep, now: number): Promise<void> {
  const keys = await readGeneratedKeys(directory);
  if (keys.length === 0)
    throw new RotationError('the cluster has no generated encryption key: Secrets are not encrypted, or spec.encryption names the keys');
  const hasNext = (await readdir(directory)).some((file) => file.endsWith('.next.key'));
  if (hasNext !== (step === 'use'))
    throw new RotationError(
      hasNext
        ? 'there is a next encryption key, which does not encrypt yet: run `oarlock keys encryption add`, which continues'
        : 'there is no next encryption key',
    );
  if (step === 'add') await addGeneratedKey(directory, new Date(now), { next: true });
  else if (step === 'use') await useNextGeneratedKey(directory);
  else {
    const former = keys.slice(1).map(({ name }) => name);
    if (former.length === 0) throw new RotationError('there is no former encryption key');
    await removeGeneratedKeys(directory, former);
  }
}
