import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';

/** The data that is needed to unpublish a volume (upstream's vol_data.json), stored next to the target path of the volume. */
export interface VolumeData {
  readonly driver: string;
  readonly volumeHandle: string;
  readonly ephemeral?: boolean;
}
const fileOf = (path: string) => join(path, 'vol_data.json');

/** Writes a JSON file atomically, so that after a crash the file has either its old or its new content. */
export const writeJsonAtomic = (file: string, value: object): Promise<void> =>
  writeAtomic(file, JSON.stringify(value), { temporary: `${file}.next` });

/** Returns the content of a JSON file; undefined if the file does not exist. @throws SyntaxError if it is not JSON, or the file system's error */
export async function readJsonIfExists<T>(file: string): Promise<T | undefined> {
  const text = await readIfExists(file);
  return text === undefined ? undefined : (JSON.parse(text) as T);
}

export const writeVolumeData = (path: string, data: VolumeData): Promise<void> => writeJsonAtomic(fileOf(path), data);
export const readVolumeData = (path: string): Promise<VolumeData | undefined> => readJsonIfExists<VolumeData>(fileOf(path));
/** Removes only the data file. Other files at the path may belong to the driver. */
export async function removeVolumeData(path: string): Promise<void> {
  for (const file of [`${fileOf(path)}.next`, fileOf(path)]) await rm(file, { force: true });
}
