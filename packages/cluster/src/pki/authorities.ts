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

const ends = ['crt', 'key'] as const;

async function readPair(directory: string, name: string): Promise<KeyPair | undefined> {
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

/** Returns the signing CA and the bundle of trusted CAs in PEM, the signing one first. @throws AuthorityError after an interrupted step */
export async function readAuthority(directory: string): Promise<{ readonly signing: KeyPair; readonly bundle: string } | undefined> {
  const [signing, next, former] = await Promise.all(['ca', 'ca-next', 'ca-former'].map((name) => readPair(directory, name)));
  if (signing === undefined) return undefined;
  if (!new X509Certificate(signing.certificate).checkPrivateKey(createPrivateKey(signing.key)))
    throw new AuthorityError(
      `${join(directory, 'ca.key')} is not the key of ca.crt${next === undefined ? '' : ': `oarlock keys ca use` was cut off, call it again'}`,
    );
  const others = [next, former].flatMap((pair) => (pair === undefined ? [] : [pair.certificate]));
  return { signing, bundle: [...new Set([signing.certificate, ...others])].map((pem) => `${pem.trimEnd()}\n`).join('') };
}

/** Takes a step, again from its start if it was interrupted. @throws AuthorityError */
export async function stepAuthority(directory: string, step: AuthorityStep, make: () => Promise<KeyPair>): Promise<void> {
  const [signing, next, former] = await Promise.all(['ca', 'ca-next', 'ca-former'].map((name) => readPair(directory, name)));
  if (signing === undefined) throw new AuthorityError(`${directory} has no CA: no API server has run there`);
  switch (step) {
    case 'add':
      if (next !== undefined) throw new AuthorityError('there is a next CA already: it signs after `oarlock keys ca use`');
      if (former !== undefined) throw new AuthorityError('the former CA is still trusted: `oarlock keys ca end` comes first');
      return writePair(directory, 'ca-next', await make());
    case 'use':
      if (next === undefined) throw new AuthorityError('there is no next CA: `oarlock keys ca add` makes one');
      if (former === undefined) await writePair(directory, 'ca-former', signing);
      await writePair(directory, 'ca', next);
      return removePair(directory, 'ca-next');
    case 'end':
      if (next !== undefined) throw new AuthorityError('the next CA does not sign yet: `oarlock keys ca use` comes first');
      if (former === undefined) throw new AuthorityError('there is no former CA: nothing is to be ended');
      return removePair(directory, 'ca-former');
  }
}
