import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AuthorityError, type AuthorityStep } from '@oarlock/cluster/pki/authorities';
import { rotateAuthority, rotateServiceAccountKey } from '@oarlock/cluster/pki/keys';
import { CommandError, exitCodes } from './common/command-error.ts';

/** Replaces the key that signs service account tokens. A running API server of the data directory uses the new key at once. */
export async function rotateKey({ dataDir }: { readonly dataDir: string }): Promise<void> {
  const directory = join(resolve(dataDir), 'pki');
  if (!existsSync(join(directory, 'service-account.key')))
    throw new CommandError(`${directory} has no service account signing key: no API server has run there`);
  await rotateServiceAccountKey(directory);
  process.stdout.write(`Service account tokens are now signed with a new key.
Tokens signed with the old keys stay valid. When all of them have expired, delete the old public keys: ${join(directory, 'service-account.*.pub')}
`);
}

const resultMessages: Readonly<Record<AuthorityStep, string>> = {
  add: `Added the next CA. When all components trust it, make it the signing CA with \`oarlock keys ca use\`.`,
  use: `The next CA signs certificates now. When no certificate of the old CA is in use, remove the old CA with \`oarlock keys ca end\`.`,
  end: `Removed the old CA.`,
};

/** Takes one step of a CA rotation in the keys of a data directory. @throws CommandError if the step is not possible now */
export async function rotateCa(step: AuthorityStep, { dataDir }: { readonly dataDir: string }): Promise<void> {
  try {
    await rotateAuthority(join(resolve(dataDir), 'pki'), step);
  } catch (cause) {
    if (!(cause instanceof AuthorityError)) throw cause;
    throw new CommandError(cause.message, exitCodes.usage, { cause });
  }
  process.stdout.write(`${resultMessages[step]}
Restart the processes of ${dataDir}, then every joined node: they apply the step when they start.
`);
}
