import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { isMountPoint } from './mounts.ts';

/** A target path at which a volume is published. */
export interface Publication {
  readonly target: string;
  readonly readonly: boolean;
  readonly mode: string;
}

/** Records the publications on this node in one file per volume. A record without a mount is ignored, because the mounts are authoritative. */
export class Publications {
  readonly #directory: string;

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'published');
  }

  async list(id: string): Promise<readonly Publication[]> {
    const text = await readFile(this.#file(id), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return '[]';
    });
    const recorded = JSON.parse(text) as readonly Publication[];
    const mounted = await Promise.all(recorded.map(({ target }) => isMountPoint(target)));
    return recorded.filter((_, at) => mounted[at] === true);
  }

  /** Records a publication. Must be called before the mount: after a crash in between, the record has no mount and is ignored. */
  async add(id: string, publication: Publication): Promise<void> {
    const others = (await this.list(id)).filter(({ target }) => target !== publication.target);
    await this.#write(id, [...others, publication]);
  }
  async remove(id: string, target: string): Promise<void> {
    const remaining = (await this.list(id)).filter((each) => each.target !== target);
    if (remaining.length > 0) await this.#write(id, remaining);
    else await rm(this.#file(id), { force: true });
  }

  async #write(id: string, publications: readonly Publication[]): Promise<void> {
    await writeAtomic(this.#file(id), JSON.stringify(publications), { temporary: `${this.#file(id)}.next` });
  }
  #file(id: string): string {
    return join(this.#directory, `${id}.json`);
  }
}
