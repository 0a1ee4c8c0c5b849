import { lstat, mkdir, readFile, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { execa } from 'execa';

const timeout = 30_000;
const isRoot = process.getuid?.() === 0;
const unescape = (text: string) => text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));

/** Whether something is mounted at a path, or, where nobody may mount, a link stands there. */
export async function isThere(target: string): Promise<boolean> {
  if (!isRoot) return (await lstat(target).catch(() => undefined))?.isSymbolicLink() === true;
  const text = await readFile('/proc/self/mountinfo', 'utf8');
  return text.split('\n').some((line) => unescape(line.split(' ')[4] ?? '') === target);
}

/** Shows `source` at `target`, which is made, with these options. Without root a link does. */
export async function show(
  source: string,
  target: string,
  { file, options }: { readonly file: boolean; readonly options: readonly string[] },
): Promise<void> {
  if (await isThere(target)) return;
  await mkdir(dirname(target), { recursive: true, mode: 0o750 });
  if (!isRoot) {
    await rm(target, { recursive: true, force: true });
    await symlink(source, target);
    return;
  }
  if (file) await writeFile(target, '', { flag: 'a', mode: 0o600 });
  else await mkdir(target, { recursive: true, mode: 0o750 });
  await execa('mount', ['--bind', source, target], { timeout });
  if (options.length === 0) return;
  try {
    await execa('mount', ['-o', `remount,bind,${options.join(',')}`, target], { timeout });
  } catch (error) {
    // half of what was asked for is nothing
    await execa('umount', [target], { timeout });
    throw error;
  }
}

/** Takes `target` away, and succeeds where it is gone. */
export async function hide(target: string): Promise<void> {
  if (isRoot && (await isThere(target))) await execa('umount', [target], { timeout });
  const stats = await lstat(target).catch(() => undefined);
  if (stats === undefined) return;
  // what is not empty is not ours to remove
  if (stats.isDirectory()) await rmdir(target);
  else await rm(target, { force: true });
}

/** The loop device of a file; it is made when there is none and it is asked for. */
export async function loopDevice(file: string, { make }: { readonly make: boolean }): Promise<string | undefined> {
  const { stdout } = await execa('losetup', ['--associated', file, '--noheadings', '--output', 'NAME'], { timeout });
  const [device = ''] = stdout.trim().split('\n');
  if (device !== '') return device;
  if (!make) return undefined;
  return (await execa('losetup', ['--find', '--show', file], { timeout })).stdout.trim();
}

export async function freeLoopDevice(file: string): Promise<void> {
  const device = await loopDevice(file, { make: false });
  if (device !== undefined) await execa('losetup', ['--detach', device], { timeout });
}

/** After its file has grown. */
export async function growLoopDevice(file: string): Promise<void> {
  const device = await loopDevice(file, { make: false });
  if (device !== undefined) await execa('losetup', ['--set-capacity', device], { timeout });
}
