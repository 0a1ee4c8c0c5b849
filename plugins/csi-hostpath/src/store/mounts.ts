import { lstat, mkdir, readFile, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';

const timeoutMs = 30_000;
const isRoot = process.getuid?.() === 0;
const unescape = (text: string) => text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));

/** Runs a program and returns its standard output. @throws Error if the program fails */
async function run(program: string, ...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr, killed } = await runProgram(systemClock, program, args, { timeoutMs });
  if (exitCode !== 0) throw new Error(`${program} ${args.join(' ')}: ${killed ?? stderr.trim()}`);
  return stdout;
}

/** Returns true if a file system is mounted at the path or, if the process is not root, if the path is a link. */
export async function isMountPoint(target: string): Promise<boolean> {
  if (!isRoot) return (await lstat(target).catch(() => undefined))?.isSymbolicLink() === true;
  const text = await readFile('/proc/self/mountinfo', 'utf8');
  return text.split('\n').some((line) => unescape(line.split(' ')[4] ?? '') === target);
}

/** Creates `target` and bind-mounts `source` at it with the mount options. If the process is not root, creates a link instead. */
export async function bindMount(
  source: string,
  target: string,
  { file, options }: { readonly file: boolean; readonly options: readonly string[] },
): Promise<void> {
  if (await isMountPoint(target)) return;
  await mkdir(dirname(target), { recursive: true, mode: 0o750 });
  if (!isRoot) {
    await rm(target, { recursive: true, force: true });
    await symlink(source, target);
    return;
  }
  if (file) await writeFile(target, '', { flag: 'a', mode: 0o600 });
  else await mkdir(target, { recursive: true, mode: 0o750 });
  await run('mount', '--bind', source, target);
  if (options.length === 0) return;
  try {
    await run('mount', '-o', `remount,bind,${options.join(',')}`, target);
  } catch (error) {
    // a mount without the requested options must not remain
    await run('umount', target);
    throw error;
  }
}

/** Unmounts and removes `target`. Succeeds if `target` does not exist. */
export async function unmount(target: string): Promise<void> {
  if (isRoot && (await isMountPoint(target))) await run('umount', target);
  const stats = await lstat(target).catch(() => undefined);
  if (stats === undefined) return;
  // rmdir: a directory that is not empty has files of others
  if (stats.isDirectory()) await rmdir(target);
  else await rm(target, { force: true });
}

/** Returns the loop device of a file. A missing loop device is created, unless `create` is false; the result is then undefined. */
export async function loopDevice(file: string, { create }: { readonly create: boolean }): Promise<string | undefined> {
  const stdout = await run('losetup', '--associated', file, '--noheadings', '--output', 'NAME');
  const [device = ''] = stdout.trim().split('\n');
  if (device !== '') return device;
  if (!create) return undefined;
  return (await run('losetup', '--find', '--show', file)).trim();
}

export async function freeLoopDevice(file: string): Promise<void> {
  const device = await loopDevice(file, { create: false });
  if (device !== undefined) await run('losetup', '--detach', device);
}

/** Updates the size of the loop device after its file has grown. */
export async function growLoopDevice(file: string): Promise<void> {
  const device = await loopDevice(file, { create: false });
  if (device !== undefined) await run('losetup', '--set-capacity', device);
}
