import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What has to be known to take a volume away again, beside where it is. */
export interface Published {
  readonly driver: string;
  readonly volumeHandle: string;
  readonly ephemeral?: boolean;
}
const fileOf = (path: string) => join(path, 'vol_data.json');

/** Whole or not at all: a kill in the middle leaves what was there. */
export async function writeWhole(file: string, value: object): Promise<void> {
  await writeFile(`${file}.next`, JSON.stringify(value), { mode: 0o600 });
  await rename(`${file}.next`, file);
}

/** Undefined: there is none. @throws SyntaxError; whatever reading throws */
export async function readWhole<T>(file: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

export const writePublished = (path: string, published: Published): Promise<void> => writeWhole(fileOf(path), published);
export const readPublished = (path: string): Promise<Published | undefined> => readWhole<Published>(fileOf(path));
/** Nothing but what was written: what a driver may have left at the path is not ours to remove. */
export async function forgetPublished(path: string): Promise<void> {
  for (const file of [`${fileOf(path)}.next`, fileOf(path)]) await rm(file, { force: true });
}
