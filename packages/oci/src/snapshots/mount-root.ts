import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { errorText } from '@oarlock/primitives/error-text';
import { OciError } from '../oci-error.ts';
import type { RootFilesystem, SnapshotMount } from '../snapshotter.ts';

const execute = promisify(execFile);
const timeout = 60_000;

/** Environment variables for mount(8). Its newer mount API limits each option to 256 bytes, which lists of lower directories exceed. */
export const mountEnvironment = { LIBMOUNT_FORCE_MOUNT2: 'always', LC_ALL: 'C' } as const;

async function run(program: string, args: readonly string[], cwd: string): Promise<void> {
  try {
    await execute(program, args, { cwd, env: { ...process.env, ...mountEnvironment }, timeout });
  } catch (error) {
    throw new OciError('FailedPrecondition', `mounting a root file system failed: ${errorText(error)}`, { cause: error });
  }
}

/** Returns the program and its arguments that make a mount; the working directory is `directory` of the mount. For callers that run it in other namespaces. */
export function mountCommand(
  { type, options }: SnapshotMount,
  target: string,
): { readonly program: string; readonly args: readonly string[] } {
  const list = options.join(',');
  return type === 'fuse-overlayfs'
    ? { program: 'fuse-overlayfs', args: ['-o', list, target] }
    : { program: 'mount', args: ['-n', '-t', 'overlay', '-o', list, 'overlay', target] };
}

/**
 * Makes the files of a root available: mounts them at `target`, unless they are mounted there already or are a directory that needs no mount. Returns the
 * directory that has them.
 * @throws OciError `FailedPrecondition`
 */
export async function mountRoot(root: RootFilesystem, target: string): Promise<string> {
  if (root.path !== undefined) return root.path;
  mkdirSync(target, { recursive: true, mode: 0o755 });
  if (isMounted(target)) return target;
  const { program, args } = mountCommand(root.mount, target);
  await run(program, args, root.mount.directory);
  return target;
}

/** Removes the mounts at a path and below. Succeeds if there are none. @throws OciError `FailedPrecondition` */
export async function unmountRoot(target: string): Promise<void> {
  if (isMounted(target)) await run('umount', ['-n', '-l', '-R', target], '/');
}

/** Returns true if a file system is mounted at the path, which must be free of links. */
export function isMounted(path: string): boolean {
  const escaped = path.replaceAll(/[ \t\n\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
  return readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${escaped} `);
}
