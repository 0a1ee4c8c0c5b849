import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Returns how users start the command, for hints: with npx, unless it comes with a Node of its own, as from an archive or a single file.
 *
 * @param bundleUrl URL of a file in the folder `bundle` of the command
 */
export const commandName = (bundleUrl: string): string =>
  existsSync(fileURLToPath(new URL('../../node', bundleUrl))) ? 'oarlock' : 'npx oarlock';
