import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AuthorityError, type AuthorityName, type AuthorityStep } from '@oarlock/cluster/pki/authorities';
import { rotateAuthority, rotateServiceAccountKey, type GeneratedTokenAlgorithm } from '@oarlock/cluster/pki/keys';
import { CommandError, exitCodes } from './common/command-error.ts';

export interface RotateKeyOptions {
  readonly dataDir: string;
  /** The algorithm of the new key; by default that of the old key. */
  readonly algorithm?: GeneratedTokenAlgorithm;
}

/** Replaces the key that signs service account tokens. A running API server of the data directory uses the new key at once. */
export async function rotateKey({ dataDir, algorithm }: RotateKeyOptions): Promise<void> {
  const directory = join(resolve(dataDir), 'pki');
  if (!existsSync(join(directory, 'service-account.key')))
    throw new CommandError(`${directory} has no service account signing key: no API server has run there`);
  await rotateServiceAccountKey(directory, algorithm);
  process.stdout.write(`Service account tokens are now signed with a new key.
Tokens signed with the old keys stay valid. When all of them have expired, delete the old public keys: ${join(directory, 'service-account.*.pub')}
`);
}

const titles: Readonly<Record<AuthorityName, string>> = { ca: 'cluster CA', 'front-proxy-ca': 'front-proxy CA' };
const resultMessages: Readonly<Record<AuthorityStep, (name: AuthorityName) => string>> = {
  add: (name) => `Added the next ${titles[name]}. When all components trust it, make it the signing CA with \`oarlock keys ${name} use\`.`,
  use: (name) =>
    `The next ${titles[name]} signs certificates now. When no certificate of the old CA is in use, remove the old CA with \`oarlock keys ${name} end\`.`,
  end: (name) => `Removed the old ${titles[name]}.`,
};
/** Hints about restarts after a rotation, by CA. Nodes do not use the front-proxy CA. */
const restartHints: Readonly<Record<AuthorityName, (dataDir: string) => string>> = {
  ca: (dataDir) => `Restart the processes of ${dataDir}, then every joined node: they apply the step when they start.`,
  'front-proxy-ca': (dataDir) => `Restart the API server of ${dataDir}: it applies the step when it starts.`,
};

/** Takes one step of the rotation of a CA in the keys of a data directory. @throws CommandError if the step is not possible now */
export async function rotateCa(name: AuthorityName, step: AuthorityStep, { dataDir }: { readonly dataDir: string }): Promise<void> {
  try {
    await rotateAuthority(join(resolve(dataDir), 'pki'), step, name);
  } catch (cause) {
    if (!(cause instanceof AuthorityError)) throw cause;
    throw new CommandError(cause.message, exitCodes.usage, { cause });
  }
  process.stdout.write(`${resultMessages[step](name)}\n${restartHints[name](dataDir)}\n`);
}
