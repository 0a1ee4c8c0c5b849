import { resolve } from 'node:path';
import type { AuthorityStep } from '@oarlock/cluster/pki/authorities';
import { areKeysShared } from '../common/are-keys-shared.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { withSharedKeys, type SharedKeysOptions } from './shared-key-rotation.ts';

const resultMessages: Readonly<Record<AuthorityStep, string>> = {
  add: 'Added the next CA of the etcd members, which all of them trust. Make it the signing CA with `oarlock keys etcd-ca use`.',
  use: 'The next CA of the etcd members has signed the certificates of all of them. Remove the old CA with `oarlock keys etcd-ca end`.',
  end: 'Removed the old CA of the etcd members, which none of them trusts any longer.',
};

/**
 * Takes one step of the rotation of the CA of managed members of etcd, and waits until every member has applied it. @throws CommandError if the step is not
 * possible now
 */
export async function rotateEtcdCa(step: AuthorityStep, options: SharedKeysOptions): Promise<void> {
  if (!areKeysShared(options.dataDir))
    throw new CommandError(
      `${resolve(options.dataDir)} is not the data directory of a server with a managed member of etcd (\`managed: true\` of storage-etcd)`,
      exitCodes.usage,
    );
  await withSharedKeys(options, async (rotation) => {
    await rotation.step('etcd-ca', step);
    await rotation.whenApplied();
    await rotation.whenMembersApplied();
  });
  process.stdout.write(`${resultMessages[step]}\n`);
}
