import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The record that is needed to unpublish a volume (upstream's vol_data.json), stored next to its target path. */
export interface VolumeData {
  readonly driver: string;
  readonly volumeHandle: string;
  readonly ephemeral?: boolean;
}
const fileOf = (path: string) => join(path, 'vol_data.json');

/** Writes a file atomically: after a crash it has its old or its new content. */
export async function writeJsonAtomic(file: string, value: object): Promise<void> {
  await writeFile(`${file}.next`, JSON.stringify(value), { mode: 0o600 });
  await rename(`${file}.next`, file);
}

/** Returns the content of a JSON file, or undefined if it does not exist. @throws SyntaxError; the file system's error */
export async function readJsonIfExists<T>(file: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

export const writeVolumeData = (path: string, data: VolumeData): Promise<void> => writeJsonAtomic(fileOf(path), data);
export const readVolumeData = (path: string): Promise<VolumeData | undefined> => readJsonIfExists<VolumeData>(fileOf(path));
/** Removes only the record. Other files at the path may belong to the driver. */
export async function removeVolumeData(path: string): Promise<void> {
  for (const file of [`${fileOf(path)}.next`, fileOf(path)]) await rm(file, { force: true });
}
