import { createPrivateKey, X509Certificate } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { KeyPair } from '@oarlock/spi/cluster';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';

/**
 * A step of a CA rotation. `add`: creates the next CA and trusts it. `use`: signs with the next CA and keeps trusting the former CA. `end`: stops
 * trusting the former CA. Processes apply a step when they start.
 */
export type AuthorityStep = 'add' | 'use' | 'end';

/** The error if a rotation step is not possible now. The message names the step that is possible. */
export class AuthorityError extends Error {
  override readonly name = 'AuthorityError';
}

/** A CA of the cluster, by the name of its files, as kubeadm names them: the cluster CA (`ca`) or the front-proxy CA. */
export type AuthorityName = 'ca' | 'front-proxy-ca';

/** A CA as read from its files. */
export interface Authority {
  /** The key pair that signs certificates. */
  readonly signing: KeyPair;
  /** The trusted CA certificates in PEM, beginning with the certificate of the signing key. */
  readonly bundle: string;
}

const ends = ['crt', 'key'] as const;
/** Returns the names of a CA's key pairs: the signing pair, and during a rotation the next pair and the former pair. */
const pairsOf = (name: AuthorityName) => [name, `${name}-next`, `${name}-former`] as const;
const removedFile = (directory: string, name: AuthorityName) => join(directory, `${name}-removed.crt`);

export async function readPair(directory: string, name: string): Promise<KeyPair | undefined> {
  const [certificate, key] = await Promise.all(ends.map((end) => readIfExists(join(directory, `${name}.${end}`))));
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}

/** Writes a key pair, the certificate last: a pair without a certificate counts as absent. */
export async function writePair(directory: string, name: string, { certificate, key }: KeyPair): Promise<void> {
  await writeAtomic(join(directory, `${name}.key`), key, { sync: true });
  await writeAtomic(join(directory, `${name}.crt`), certificate, { sync: true });
}

/** Removes a key pair, the certificate first: a partly removed pair counts as absent. */
async function removePair(directory: string, name: string): Promise<void> {
  for (const end of ends) await rm(join(directory, `${name}.${end}`), { force: true });
}

const readPairs = (directory: string, name: AuthorityName) => Promise.all(pairsOf(name).map((each) => readPair(directory, each)));

/**
 * Completes the step `use` if its files were written in part: the key of the CA is that of the next CA already, and the former CA is complete
 * (`writeKeyFiles` writes it first).
 */
export async function completeInterruptedUse(directory: string, name: AuthorityName): Promise<void> {
  const [signing, next, former] = await readPairs(directory, name);
  if (signing === undefined || next === undefined || former === undefined || signing.certificate === next.certificate) return;
  if (signing.key.trim() === next.key.trim()) await writePair(directory, name, next);
}

/** Reads a CA; returns undefined if the directory does not contain it. @throws AuthorityError if a rotation step was interrupted */
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

/**
 * Reads a CA, or creates it if the directory contains neither its certificate nor its key.
 * @throws AuthorityError if a rotation step was interrupted or only one of the files exists, or if the CA is not valid yet
 */
export async function openAuthority(directory: string, name: AuthorityName, make: () => KeyPair): Promise<Authority> {
  const found = await readAuthority(directory, name);
  if (found !== undefined) {
    requireValidNow(join(directory, `${name}.crt`), found.signing.certificate);
    return found;
  }
  // `writePair` writes the key first: a certificate without a key was put there by an administrator and must not be overwritten
  if ((await readIfExists(join(directory, `${name}.crt`))) !== undefined)
    throw new AuthorityError(`${join(directory, `${name}.crt`)} has no key: the API server needs ${name}.key to issue certificates`);
  const signing = make();
  await writePair(directory, name, signing);
  return { signing, bundle: bundleOf([signing.certificate]) };
}

/** @throws AuthorityError if a CA was created while the clock was ahead: clients would reject all of its certificates */
function requireValidNow(file: string, certificate: string): void {
  const validFrom = Date.parse(new X509Certificate(certificate).validFrom);
  if (Date.now() >= validFrom) return;
  const [from, now] = [validFrom, Date.now()].map((time) => new Date(time).toISOString());
  throw new AuthorityError(
    `${file} is not valid before ${from}, and the clock of this machine is at ${now}: the CA was created while the clock was ahead. Correct the clock; if it is correct, wait until that time, or start a new cluster in another data directory`,
  );
}

/** Returns the certificates (PEM) of the CAs that rotations have removed. */
export const readRemovedAuthorities = async (directory: string, name: AuthorityName): Promise<string> =>
  (await readIfExists(removedFile(directory, name))) ?? '';

const bundleOf = (certificates: readonly string[]): string =>
  [...new Set(certificates.map((pem) => pem.trim()))].flatMap((pem) => (pem === '' ? [] : [`${pem}\n`])).join('');

export interface StepOptions {
  readonly directory: string;
  readonly name: AuthorityName;
  /** The argument of `oarlock keys` that takes the steps. Default: the name of the CA. */
  readonly command?: string;
  /** Creates the key pair of the next CA. */
  readonly make: () => KeyPair;
}

/**
 * Takes a step of a CA rotation. Completes an interrupted step, and changes nothing if the step was the last one that was taken.
 * @throws AuthorityError if the step is not possible now
 */
export async function stepAuthority(step: AuthorityStep, { directory, name, command: argument = name, make }: StepOptions): Promise<void> {
  const [signing, next, former] = await readPairs(directory, name);
  const [current, nextName, formerName] = pairsOf(name);
  const command = (which: AuthorityStep) => `\`oarlock keys ${argument} ${which}\``;
  if (signing === undefined) throw new AuthorityError(`${directory} has no CA ${name}.crt: the API server creates it when it starts`);
  switch (step) {
    case 'add':
      if (next !== undefined) return;
      if (former !== undefined) throw new AuthorityError(`the former CA is still trusted: run ${command('end')} first`);
      return writePair(directory, nextName, make());
    case 'use':
      if (next === undefined && former === undefined) throw new AuthorityError(`there is no next CA: ${command('add')} creates one`);
      if (former === undefined) await writePair(directory, formerName, signing);
      if (next !== undefined) await writePair(directory, current, next);
      return removePair(directory, nextName);
    case 'end':
      if (next !== undefined) throw new AuthorityError(`the next CA does not sign yet: run ${command('use')} first`);
      if (former !== undefined) await recordRemoval(directory, name, former);
      else if ((await readRemovedAuthorities(directory, name)) === '') throw new AuthorityError('there is no former CA to remove');
      return removePair(directory, formerName);
  }
}

async function recordRemoval(directory: string, name: AuthorityName, { certificate }: KeyPair): Promise<void> {
  await writeAtomic(removedFile(directory, name), bundleOf([await readRemovedAuthorities(directory, name), certificate]), { sync: true });
}
