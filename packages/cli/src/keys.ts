import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AuthorityError, type AuthorityStep } from '@oarlock/cluster/authorities';
import { rotateAuthority, rotateServiceAccountKey } from '@oarlock/cluster/keys';
import { CommandError, exitCodes } from './exit.ts';

/** Puts a new key in the place of the one that signs tokens of service accounts. The API server of the directory takes it up at once. */
export async function rotateKey({ dataDir }: { readonly dataDir: string }): Promise<void> {
  const directory = join(resolve(dataDir), 'pki');
  if (!existsSync(join(directory, 'service-account.key')))
    throw new CommandError(`${directory} has no key that signs tokens: no API server has run there`);
  await rotateServiceAccountKey(directory);
  process.stdout.write(`Tokens of service accounts are signed with a new key.
Those of before go on to be good. When they have all expired, take the former keys away: ${join(directory, 'service-account.*.pub')}
`);
}

const done: Readonly<Record<AuthorityStep, string>> = {
  add: `There is a next CA. Once it is trusted everywhere, \`oarlock keys ca use\` makes it the one that signs.`,
  use: `The next CA signs. Once nobody shows a certificate of the former any more, \`oarlock keys ca end\` ends it.`,
  end: `The former CA is gone.`,
};

/** Takes a step to another CA in the keys of a data directory. @throws CommandError when it cannot be taken now */
export async function rotateCa(step: AuthorityStep, { dataDir }: { readonly dataDir: string }): Promise<void> {
  try {
    await rotateAuthority(join(resolve(dataDir), 'pki'), step);
  } catch (cause) {
    if (!(cause instanceof AuthorityError)) throw cause;
    throw new CommandError(cause.message, exitCodes.usage, { cause });
  }
  process.stdout.write(`${done[step]}
Start what runs in ${dataDir} anew, then every node that joined: they take up the step when they start.
`);
}
