import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns a cgroup and its descendants, parents first. */
export function withDescendants(directory: string): readonly string[] {
  try {
    const names = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return [directory, ...names.flatMap(({ name }) => withDescendants(join(directory, name)))];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [directory];
    throw error;
  }
}

/** Returns the text of a file; empty if the group or the controller does not exist. */
export function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Writes a file that the kernel may have been built without: swap accounting, a controller. */
export function tryWrite(path: string, value: string): void {
  try {
    writeFileSync(path, value);
  } catch (error) {
    if (!['ENOENT', 'EOPNOTSUPP', 'EACCES', 'EINVAL', 'EBUSY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/** Returns the number after a key in the text of a file such as `memory.stat`; 0 without one. */
export function valueOf(text: string, key: string): number {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${key} `));
  return line === undefined ? 0 : Number(line.slice(key.length + 1));
}
