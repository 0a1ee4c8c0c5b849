import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { rotateServiceAccountKey } from '@oarlock/cluster/keys';
import { CommandError } from './exit.ts';

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
