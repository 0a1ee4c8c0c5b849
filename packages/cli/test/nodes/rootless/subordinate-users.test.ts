import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loaderArguments, moduleUrl } from '../../support/plugins-command.ts';

const user = 65_534;
const [firstId, ids] = [100_000, 65_536];
const moduleAddress = moduleUrl('nodes/rootless/node-namespaces');
const module = fileURLToPath(moduleAddress);

function missing(): string | undefined {
  if (process.getuid?.() !== 0) return 'the ranges of a user are set by root';
  if (!existsSync('/usr/bin/newuidmap')) return 'newuidmap is not installed';
  const flags = ['--user', '--map-root-user', '--net', 'true'];
  if (spawnSync('unshare', flags, { uid: user, gid: user, cwd: '/' }).status !== 0) return 'the kernel denies user namespaces';
  return undefined;
}
const readable = spawnSync('test', ['-r', module], process.getuid?.() === 0 ? { uid: user, gid: user } : {}).status === 0;
const skipped = readable ? missing() : 'the checkout is not readable for other users';

/** Prints which users a node of this process has, and the user ids that processes of two of them have outside. */
const script = `
const { openNodeNamespaces, releaseNodeNamespaces } = await import(${JSON.stringify(moduleAddress)});
const { execFileSync } = await import('node:child_process');
const { writeFileSync, statSync } = await import('node:fs');
const directory = process.argv[1];
const { users, enterNode: [file, ...words] } = await openNodeNamespaces(directory);
try {
  execFileSync(file, [...words, 'sh', '-c', 'cd "$1" && : > root && : > other && chown 1000:1000 other', 'sh', directory]);
  const owners = ['root', 'other'].map((name) => statSync(directory + '/' + name).uid);
  console.log(JSON.stringify({ users, owners }));
} finally {
  execFileSync(file, [...words, 'sh', '-c', 'rm -f "$1/root" "$1/other"', 'sh', directory]);
  await releaseNodeNamespaces(directory);
}`;
/** Gives the user its ranges in a mount namespace of its own. RANGES USER COMMAND... */
const asUserWithRanges = `for file in /etc/subuid /etc/subgid; do mount --bind "$1" "$file"; done
user=$2; shift 2
exec setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"`;

describe.skipIf(skipped !== undefined && (!readable || process.env['CI'] !== 'true'))(
  `the node of a user with subordinate ids${skipped === undefined ? '' : ` (${skipped})`}`,
  () => {
    let directory: string;
    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'subordinate-users-'));
      await chown(directory, user, user);
    });
    afterEach(() => rm(directory, { recursive: true }));

    it('has the users of images, which newuidmap maps', async () => {
      const ranges = join(directory, 'ranges');
      await writeFile(ranges, `nobody:${firstId}:${ids}\n`);
      await chmod(ranges, 0o644);
      const node = [process.execPath, ...loaderArguments, '--input-type=module', '--eval', script, directory];
      const words = ['--mount', '--', 'sh', '-c', asUserWithRanges, 'sh', ranges, String(user), ...node];
      const { stdout, stderr, status } = spawnSync('unshare', words, {
        cwd: dirname(module),
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], HOME: directory },
      });
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      expect(JSON.parse(stdout)).toEqual({ users: 'range', owners: [user, firstId + 999] });
    });
  },
);
