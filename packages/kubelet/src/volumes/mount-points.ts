import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);
const timeoutMs = 30_000;

/** `\040` is a blank in mountinfo. */
const unescape = (text: string) => text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));

/** Mount points of this process at or below a directory, the deepest first. Empty where the system has no mountinfo. */
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

/** `source` is taken as it is written: it may be a link of /proc to an open file. */
export async function bindMount(source: string, target: string): Promise<void> {
  await run('mount', ['--no-canonicalize', '--bind', source, target], { timeout: timeoutMs });
}

/** Succeeds on what is not mounted. */
export async function unmountAll(directory: string): Promise<void> {
  for (const point of await mountsBelow(directory)) {
    await run('umount', [point], { timeout: timeoutMs }).catch(async (error: unknown) => {
      // gone meanwhile is as good; busy is not
      if ((await mountsBelow(point)).includes(point)) throw error;
    });
  }
}
