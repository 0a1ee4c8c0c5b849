import { readFile, stat } from 'node:fs/promises';
import { relative } from 'node:path';

/** Larger files, such as bundles, are left out. */
const maxFileBytes = 256 * 1024;

/** A file that differs between two versions of a plugin. A file that one version does not have is empty there. */
export interface SourceChange {
  /** The path relative to the working directory. */
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

/** Returns the texts of a plugin's own files by path: without those of packages, and those that no longer exist. */
export async function readSources(files: Iterable<string>): Promise<ReadonlyMap<string, string>> {
  const own = [...files].filter((file) => !file.includes('/node_modules/')).sort();
  const texts = await Promise.all(own.map(readSource));
  return new Map(own.flatMap((file, index) => (texts[index] === undefined ? [] : [[file, texts[index]] as const])));
}

async function readSource(file: string): Promise<string | undefined> {
  try {
    const { size } = await stat(file);
    return size > maxFileBytes ? undefined : await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

export function sourceChanges(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): readonly SourceChange[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((path): SourceChange[] => {
    const [old = '', next = ''] = [before.get(path), after.get(path)];
    return old === next ? [] : [{ file: relative('', path), before: old, after: next }];
  });
}
