import { constants, type Stats } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { CommandError, exitCodes } from './command-error.ts';

/** The user whose access is checked. */
export interface DirectoryUser {
  readonly uid: number | undefined;
  access(path: string, mode: number): Promise<void>;
}

const thisUser: DirectoryUser = { uid: process.geteuid?.(), access };
const remedy = 'name another directory with `--data-dir DIR`';

/**
 * Checks that a data directory can be used by this user, or does not exist. Every command with `--data-dir` starts with this check, so that its
 * own steps do not fail with the error of a file in the directory. @throws CommandError
 */
export async function checkDataDir(directory: string, user: DirectoryUser = thisUser): Promise<void> {
  const dataDir = resolve(directory);
  let stats: Stats;
  try {
    stats = await stat(dataDir);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw new CommandError(`the data directory ${dataDir} cannot be used: ${fileErrorReason(cause)}; ${remedy}`, exitCodes.usage, {
      cause,
    });
  }
  if (!stats.isDirectory()) throw new CommandError(`the data directory ${dataDir} is a file; ${remedy}`, exitCodes.usage);
  try {
    await user.access(dataDir, constants.R_OK | constants.X_OK);
  } catch (cause) {
    throw new CommandError(
      `the data directory ${dataDir} cannot be read: ${fileErrorReason(cause)}${ownership(stats, user)}; run the command as its owner, or ${remedy}`,
      exitCodes.failed,
      { cause },
    );
  }
}

/** Returns which users the owner of a directory and the caller are, if they differ. */
function ownership({ uid }: Stats, { uid: own }: DirectoryUser): string {
  return own === undefined || own === uid ? '' : `, because it belongs to the user with id ${uid} and this command runs with id ${own}`;
}
