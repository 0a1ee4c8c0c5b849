import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

const digest = (text: string) => createHash('sha256').update(text).digest('hex');

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

  async hold(staged: string, path: string): Promise<void> {
    await mkdir(join(staged, 'published'), { recursive: true, mode: 0o700 });
    await (await open(join(staged, 'published', digest(path)), 'w', 0o600)).close();
  }

  /** Whether nobody holds the volume any more. */
  async letGo(staged: string, path: string): Promise<boolean> {
    await rm(join(staged, 'published', digest(path)), { force: true });
    return (await readdir(join(staged, 'published')).catch(() => [])).length === 0;
  }

  async forget(staged: string): Promise<void> {
    await rm(join(staged, 'published'), { recursive: true, force: true });
    await rm(staged, { recursive: true, force: true });
  }
}
