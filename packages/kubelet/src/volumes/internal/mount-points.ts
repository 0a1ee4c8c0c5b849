import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);
const timeoutMs = 30_000;

/** Decodes the octal escapes of mountinfo, for example `\040` to a space. */
const unescape = (text: string) => text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));

/** Returns the mount points at or below a directory, deepest first. Returns none on systems without mountinfo. */
export async function mountsBelow(directory: string): Promise<readonly string[]> {
  const text = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
  const points = text.split('\n').map((line) => unescape(line.split(' ')[4] ?? ''));
  return points.filter((point) => point === directory || point.startsWith(`${directory}/`)).sort((a, b) => b.length - a.length);
}

export async function mountTmpfs(target: string, sizeBytes: number | undefined): Promise<void> {
  await run('mount', ['-t', 'tmpfs', ...(sizeBytes === undefined ? [] : ['-o', `size=${sizeBytes}`]), 'tmpfs', target], {
    timeout: timeoutMs,
  });
}

/** Bind-mounts `source` at `target`. `source` is not canonicalized, because it may be a /proc link to an open file. */
export async function bindMount(source: string, target: string): Promise<void> {
  await run('mount', ['--no-canonicalize', '--bind', source, target], { timeout: timeoutMs });
}

/** Unmounts all mounts at or below a directory. Succeeds if there are none. */
export async function unmountAll(directory: string): Promise<void> {
  for (const point of await mountsBelow(directory)) {
    await run('umount', [point], { timeout: timeoutMs }).catch(async (error: unknown) => {
      // ignore the error if the mount is gone, but not if it is busy
      if ((await mountsBelow(point)).includes(point)) throw error;
    });
  }
}

/** The target, the options and the type of a mount. */
export interface MountRequest {
  readonly target: string;
  readonly options: readonly string[];
  readonly type?: string | undefined;
}

/** Mounts `source` at `target` with options of mount(8), which may include `bind`. */
export async function mountWith(source: string, { target, options, type }: MountRequest): Promise<void> {
  const asked = [...(type === undefined ? [] : ['-t', type]), ...(options.length === 0 ? [] : ['-o', options.join(',')])];
  await run('mount', [...asked, '--', source, target], { timeout: timeoutMs });
}

/** Returns the other mount points of the same file system root that is mounted at `target`. */
export async function mountedAlsoAt(target: string): Promise<readonly string[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' '));
  const mounts = lines.map(([, , device = '', root = '', point = '']) => ({ what: `${device} ${root}`, point: unescape(point) }));
  const own = mounts.findLast(({ point }) => point === target)?.what;
  return mounts.filter(({ what, point }) => what === own && point !== target).map(({ point }) => point);
}

/** Mounts a hugetlbfs at `target`. `pageSize` is in bytes. */
export const mountHugepages = (target: string, pageSize: number): Promise<void> =>
  mountWith('hugetlbfs', { target, options: [`pagesize=${pageSize / 1024}K`], type: 'hugetlbfs' });
