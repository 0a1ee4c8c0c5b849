import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rm, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { readWhole, writeWhole } from './published.ts';

const digest = (text: string) => createHash('sha256').update(text).digest('hex');
const none = (error: NodeJS.ErrnoException): string[] => {
  if (error.code === 'ENOENT') return [];
  throw error;
};

/** What is staged, as it is written down. */
export interface Staged {
  readonly driver: string;
  readonly volumeHandle: string;
  /** Of the PersistentVolume. */
  readonly volumeName: string;
  readonly attachable: boolean;
  readonly block: boolean;
}

/** Where volumes are staged, and which of their publications there are: a file each, so that a kill forgets none. */
export class Staging {
  readonly #directory: string;
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** The directory of a volume, the same in every process. */
  of(driver: string, volumeHandle: string): string {
    return join(this.#directory, digest(`${driver}^${volumeHandle}`));
  }
  target(staged: string): string {
    return join(staged, 'globalmount');
  }

  /** One at a time for each volume. */
  async turn<T>(staged: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(staged);
    const mine = (before ?? Promise.resolve()).then(work, work);
    this.#turns.set(staged, mine);
    try {
      return await mine;
    } finally {
      if (this.#turns.get(staged) === mine) this.#turns.delete(staged);
    }
  }

  async hold(staged: string, path: string, about: Staged): Promise<void> {
    await mkdir(join(staged, 'published'), { recursive: true, mode: 0o700 });
    await writeWhole(join(staged, 'volume.json'), about);
    await (await open(join(staged, 'published', digest(path)), 'w', 0o600)).close();
  }

  async heldByOthers(staged: string, path: string): Promise<boolean> {
    const own = digest(path);
    return (await readdir(join(staged, 'published')).catch(none)).some((each) => each !== own);
  }

  /** Whether nobody holds the volume any more. */
  async letGo(staged: string, path: string): Promise<boolean> {
    await rm(join(staged, 'published', digest(path)), { force: true });
    return (await readdir(join(staged, 'published')).catch(none)).length === 0;
  }

  about(staged: string): Promise<Staged | undefined> {
    return readWhole<Staged>(join(staged, 'volume.json'));
  }

  /** All that is staged on this node, or was begun to be. */
  async all(): Promise<readonly Staged[]> {
    const found = await Promise.all((await readdir(this.#directory).catch(none)).map((name) => this.about(join(this.#directory, name))));
    return found.filter((each) => each !== undefined);
  }

  /** Removes what was written down. @throws Error when the driver has left something where it was staged: it may be the volume itself */
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
