import { execa } from 'execa';
import { errorText } from '@oarlock/primitives/error-text';
import { OciError } from '../oci-error.ts';
import type { RootFilesystem } from '../snapshotter.ts';

const timeoutMs = 60_000;
/** The newer mount API limits each option to 256 bytes, which lists of lower directories exceed. */
const env = { LIBMOUNT_FORCE_MOUNT2: 'always', LC_ALL: 'C' };

async function run(program: string, args: readonly string[], cwd: string): Promise<void> {
  try {
    await execa(program, args, { cwd, env, timeout: timeoutMs, stdin: 'ignore' });
  } catch (error) {
    throw new OciError('FailedPrecondition', `mounting a root file system failed: ${errorText(error)}`, { cause: error });
  }
}

/** Returns the program and its arguments that mount a root; the working directory is `mount.directory`. For callers that run it in other namespaces. */
export function mountCommand(
  root: RootFilesystem,
  target: string,
): { readonly program: string; readonly args: readonly string[]; readonly directory: string } {
  if (root.mount === undefined) return { program: 'mount', args: ['--bind', root.path, target], directory: '/' };
  const { type, options, directory } = root.mount;
  const list = options.join(',');
  return type === 'fuse-overlayfs'
    ? { program: 'fuse-overlayfs', args: ['-o', list, target], directory }
    : { program: 'mount', args: ['-t', 'overlay', '-o', list, 'overlay', target], directory };
}

/** Mounts a root at an existing directory. @throws OciError `FailedPrecondition` */
export async function mountRoot(root: RootFilesystem, target: string): Promise<void> {
  const { program, args, directory } = mountCommand(root, target);
  await run(program, args, directory);
}

/** Unmounts a root. @throws OciError `FailedPrecondition` */
export async function unmountRoot(target: string): Promise<void> {
  await run('umount', [target], '/');
}
