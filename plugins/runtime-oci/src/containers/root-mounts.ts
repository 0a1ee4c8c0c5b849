import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import type { RootFilesystem } from '@oarlock/oci/snapshotter';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';

const run = promisify(execFile);
const timeout = 30_000;

/** Makes the files of a snapshot available at a directory. Returns the directory that has them. @throws SupervisorError if the mount fails */
export async function mountRoot(root: RootFilesystem, target: string): Promise<string> {
  if (root.path !== undefined) return root.path;
  mkdirSync(target, { recursive: true, mode: 0o755 });
  if (isMounted(target)) return target;
  const { type, options, directory } = root.mount;
  const words = ['-o', options.join(',')];
  const command = type === 'overlay' ? ['mount', '-n', '-t', 'overlay', ...words, 'overlay', target] : ['fuse-overlayfs', ...words, target];
  await runIn(directory, command);
  return target;
}

/** Removes the mounts at a directory and below. Succeeds if there are none. */
export async function unmountRoot(target: string): Promise<void> {
  if (isMounted(target)) await runIn('/', ['umount', '-n', '-l', '-R', target]);
}

/** Returns true if a file system is mounted at the path, which must be free of links. */
export function isMounted(path: string): boolean {
  const escaped = path.replaceAll(/[ \t\n\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
  return readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${escaped} `);
}

async function runIn(cwd: string, [name = '', ...args]: readonly string[]): Promise<void> {
  const program = findProgram(name);
  if (program === undefined) throw new SupervisorError('FailedPrecondition', `the program ${name} is not installed`);
  try {
    await run(program, args, { cwd, timeout });
  } catch (cause) {
    throw new SupervisorError('Internal', `cannot run ${name}: ${(cause as Error).message}`, { cause });
  }
}
