import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isThere } from './mounts.ts';

/** How a volume is shown somewhere. */
export interface Publication {
  readonly target: string;
  readonly readonly: boolean;
  readonly mode: string;
}

/** Where volumes are shown on this node. A file for each volume, believed as far as the mounts agree: those are what counts. */
export class Publications {
  readonly #directory: string;

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'published');
  }

  async of(id: string): Promise<readonly Publication[]> {
    const text = await readFile(this.#file(id), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return '[]';
    });
    const written = JSON.parse(text) as readonly Publication[];
    const there = await Promise.all(written.map(({ target }) => isThere(target)));
    return written.filter((_, at) => there[at] === true);
  }

  /** Before it is shown: a kill between the two leaves one entry too many, which the mounts contradict. */
  async add(id: string, publication: Publication): Promise<void> {
    const others = (await this.of(id)).filter(({ target }) => target !== publication.target);
    await this.#write(id, [...others, publication]);
  }
  async remove(id: string, target: string): Promise<void> {
    const left = (await this.of(id)).filter((each) => each.target !== target);
    if (left.length > 0) await this.#write(id, left);
    else await rm(this.#file(id), { force: true });
  }

  async #write(id: string, publications: readonly Publication[]): Promise<void> {
    await writeFile(`${this.#file(id)}.next`, JSON.stringify(publications), { mode: 0o600 });
    await rename(`${this.#file(id)}.next`, this.#file(id));
  }
  #file(id: string): string {
    return join(this.#directory, `${id}.json`);
  }
}
