import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rm, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { readJsonIfExists, writeJsonAtomic } from './internal/volume-data-file.ts';

const digest = (text: string) => createHash('sha256').update(text).digest('hex');
const emptyIfMissing = (error: NodeJS.ErrnoException): string[] => {
  if (error.code === 'ENOENT') return [];
  throw error;
};

/** The stored record of a staged volume. */
export interface StagedVolume {
  readonly driver: string;
  readonly volumeHandle: string;
  /** The name of the PersistentVolume. */
  readonly volumeName: string;
  readonly attachable: boolean;
  readonly block: boolean;
}

/** Records in one file per publication which volumes are staged on this node and for which publications, so that a crash loses no record. */
export class Staging {
  readonly #directory: string;
  readonly #running = new Map<string, Promise<unknown>>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Returns the staging directory of a volume. It is the same in every process. */
  directoryOf(driver: string, volumeHandle: string): string {
    return join(this.#directory, digest(`${driver}^${volumeHandle}`));
  }
  target(staged: string): string {
    return join(staged, 'globalmount');
  }

  /** Runs work for one volume at a time. */
  async runExclusive<T>(staged: string, work: () => Promise<T>): Promise<T> {
    const previous = this.#running.get(staged);
    const current = (previous ?? Promise.resolve()).then(work, work);
    this.#running.set(staged, current);
    try {
      return await current;
    } finally {
      if (this.#running.get(staged) === current) this.#running.delete(staged);
    }
  }

  async addPublication(staged: string, path: string, volume: StagedVolume): Promise<void> {
    await mkdir(join(staged, 'published'), { recursive: true, mode: 0o700 });
    await writeJsonAtomic(join(staged, 'volume.json'), volume);
    await (await open(join(staged, 'published', digest(path)), 'w', 0o600)).close();
  }

  async isPublishedElsewhere(staged: string, path: string): Promise<boolean> {
    const own = digest(path);
    return (await readdir(join(staged, 'published')).catch(emptyIfMissing)).some((each) => each !== own);
  }

  /** Removes the record of a publication. Returns true if the volume has no other publication. */
  async removePublication(staged: string, path: string): Promise<boolean> {
    await rm(join(staged, 'published', digest(path)), { force: true });
    return (await readdir(join(staged, 'published')).catch(emptyIfMissing)).length === 0;
  }

  read(staged: string): Promise<StagedVolume | undefined> {
    return readJsonIfExists<StagedVolume>(join(staged, 'volume.json'));
  }

  /** Returns all volumes that are staged on this node, or whose staging has started. */
  async list(): Promise<readonly StagedVolume[]> {
    const names = await readdir(this.#directory).catch(emptyIfMissing);
    const found = await Promise.all(names.map((name) => this.read(join(this.#directory, name))));
    return found.filter((each) => each !== undefined);
  }

  /** Removes the record of a staged volume. @throws Error if the driver left files at the staging path, which may be the volume itself */
  async forget(staged: string): Promise<void> {
    await rmdir(this.target(staged)).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOTDIR') await unlink(this.target(staged));
      else if (error.code !== 'ENOENT') throw error;
    });
    await rm(join(staged, 'published'), { recursive: true, force: true });
    for (const file of ['volume.json.next', 'volume.json']) await rm(join(staged, file), { force: true });
    await rmdir(staged).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
}
