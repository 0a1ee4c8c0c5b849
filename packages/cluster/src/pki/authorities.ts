import { createPrivateKey, X509Certificate } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { KeyPair } from '@oarlock/spi/cluster';
import { readIfExists, writeAtomic } from '@oarlock/primitives/atomic-file';

/**
 * A step of a CA rotation. `add`: creates the next CA and trusts it. `use`: signs with it and keeps trusting the former CA. `end`: stops
 * trusting the former CA. Processes apply a step when they start.
 */
export type AuthorityStep = 'add' | 'use' | 'end';

/** The step is not possible now. The message names the one that is. */
export class AuthorityError extends Error {
  override readonly name = 'AuthorityError';
}

/** A CA of the cluster, by the name of its files: the cluster CA (`ca`) or the front-proxy CA, as kubeadm names them. */
export type AuthorityName = 'ca' | 'front-proxy-ca';

/** A CA as its files describe it. */
export interface Authority {
  /** The pair that signs certificates. */
  readonly signing: KeyPair;
  /** The trusted CA certificates in PEM, the signing one first. */
  readonly bundle: string;
}

const ends = ['crt', 'key'] as const;
/** The pairs of an authority: the signing one, the next one and the former one of a rotation. */
const pairsOf = (name: AuthorityName) => [name, `${name}-next`, `${name}-former`] as const;
const removedFile = (directory: string, name: AuthorityName) => join(directory, `${name}-removed.crt`);

export async function readPair(directory: string, name: string): Promise<KeyPair | undefined> {
  const [certificate, key] = await Promise.all(ends.map((end) => readIfExists(join(directory, `${name}.${end}`))));
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}

/** Writes the certificate last: a pair without a certificate does not exist. */
export async function writePair(directory: string, name: string, { certificate, key }: KeyPair): Promise<void> {
  await writeAtomic(join(directory, `${name}.key`), key);
  await writeAtomic(join(directory, `${name}.crt`), certificate);
}

/** Removes the certificate first: a partly removed pair does not exist. */
async function removePair(directory: string, name: string): Promise<void> {
  for (const end of ends) await rm(join(directory, `${name}.${end}`), { force: true });
}

const readPairs = (directory: string, name: AuthorityName) => Promise.all(pairsOf(name).map((each) => readPair(directory, each)));

/** Reads a CA; undefined if the directory does not have it. @throws AuthorityError after an interrupted step of a rotation */
export async function readAuthority(directory: string, name: AuthorityName = 'ca'): Promise<Authority | undefined> {
  const [signing, next, former] = await readPairs(directory, name);
  if (signing === undefined) return undefined;
  if (!new X509Certificate(signing.certificate).checkPrivateKey(createPrivateKey(signing.key)))
    throw new AuthorityError(
      `${join(directory, `${name}.key`)} is not the key of ${name}.crt${next === undefined ? '' : `: \`oarlock keys ${name} use\` was interrupted, run it again`}`,
    );
  const others = [next, former].flatMap((pair) => (pair === undefined ? [] : [pair.certificate]));
  return { signing, bundle: bundleOf([signing.certificate, ...others]) };
}

/** Reads a CA and creates it if the directory has neither its certificate nor its key. @throws AuthorityError */
export async function openAuthority(directory: string, name: AuthorityName, make: () => KeyPair): Promise<Authority> {
  const found = await readAuthority(directory, name);
  if (found !== undefined) return found;
  // `writePair` writes the key first: a certificate without a key was put there by an administrator and must not be overwritten
  if ((await readIfExists(join(directory, `${name}.crt`))) !== undefined)
    throw new AuthorityError(`${join(directory, `${name}.crt`)} has no key: the API server needs ${name}.key to issue certificates`);
  const signing = make();
  await writePair(directory, name, signing);
  return { signing, bundle: bundleOf([signing.certificate]) };
}

/** Returns the certificates (PEM) of the CAs that rotations have removed. */
export const readRemovedAuthorities = async (directory: string, name: AuthorityName): Promise<string> =>
  (await readIfExists(removedFile(directory, name))) ?? '';

const bundleOf = (certificates: readonly string[]): string =>
  [...new Set(certificates.map((pem) => pem.trim()))].flatMap((pem) => (pem === '' ? [] : [`${pem}\n`])).join('');

export interface StepOptions {
  readonly directory: string;
  readonly name: AuthorityName;
  /** Creates the next CA. */
  readonly make: () => KeyPair;
}

/** Takes a step of a rotation, again from its start if it was interrupted. @throws AuthorityError */
export async function stepAuthority(step: AuthorityStep, { directory, name, make }: StepOptions): Promise<void> {
  const [signing, next, former] = await readPairs(directory, name);
  const [current, nextName, formerName] = pairsOf(name);
  const command = (which: AuthorityStep) => `\`oarlock keys ${name} ${which}\``;
  if (signing === undefined) throw new AuthorityError(`${directory} has no CA ${name}.crt: the API server creates it when it starts`);
  switch (step) {
    case 'add':
      if (next !== undefined) throw new AuthorityError(`there is a next CA already: it signs after ${command('use')}`);
      if (former !== undefined) throw new AuthorityError(`the former CA is still trusted: run ${command('end')} first`);
      return writePair(directory, nextName, make());
    case 'use':
      if (next === undefined) throw new AuthorityError(`there is no next CA: ${command('add')} creates one`);
      if (former === undefined) await writePair(directory, formerName, signing);
      await writePair(directory, current, next);
      return removePair(directory, nextName);
    case 'end':
      if (next !== undefined) throw new AuthorityError(`the next CA does not sign yet: run ${command('use')} first`);
      if (former === undefined) throw new AuthorityError('there is no former CA to remove');
      await writeAtomic(removedFile(directory, name), bundleOf([await readRemovedAuthorities(directory, name), former.certificate]));
      return removePair(directory, formerName);
  }
}
