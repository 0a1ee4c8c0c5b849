import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import type { Logger } from '@oarlock/primitives/logger';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { z } from 'zod';

const prefix = 'sha256-';
const temporarySuffix = '.tmp';

const fileName = (key: string): string => `${prefix}${createHash('sha256').update(key).digest('hex')}`;

export interface RecordDirectoryOptions<T> {
  readonly directory: string;
  readonly schema: z.ZodType<T>;
  readonly log: Logger;
}

/** Records in files of their own (mode 0600), named by the digests of their keys, as upstream's kubelet stores them. Reads are from memory. */
export class RecordDirectory<T> {
  readonly #options: RecordDirectoryOptions<T>;
  /** By file name. Undefined if the file cannot be read: then there is a record of unknown content. */
  readonly #records = new Map<string, T | undefined>();
  readonly #writes = new KeyedLock();

  constructor(options: RecordDirectoryOptions<T>) {
    this.#options = options;
  }

  get size(): number {
    return this.#records.size;
  }

  /** The readable records. */
  get values(): readonly T[] {
    return [...this.#records.values()].filter((record) => record !== undefined);
  }

  has(key: string): boolean {
    return this.#records.has(fileName(key));
  }

  get(key: string): T | undefined {
    return this.#records.get(fileName(key));
  }

  /** Reads all files, and removes what an interrupted write left. @throws Error if the directory cannot be read or created */
  async load(): Promise<void> {
    const { directory, log } = this.#options;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    for (const name of await readdir(directory)) {
      if (!name.startsWith(prefix)) continue;
      const file = join(directory, name);
      if (name.endsWith(temporarySuffix)) {
        await rm(file, { force: true });
        continue;
      }
      try {
        this.#records.set(name, this.#options.schema.parse(JSON.parse(await readFile(file, 'utf8'))));
      } catch (error) {
        log.warn({ err: error, file }, 'a record of an image pull is unreadable: the next pod needs credentials for the image');
        this.#records.set(name, undefined);
      }
    }
  }

  /** @throws Error if the file cannot be written; reads return the record nevertheless */
  async write(key: string, record: T): Promise<void> {
    const name = fileName(key);
    this.#records.set(name, record);
    await this.#save(name);
  }

  /** @throws Error if the file cannot be removed */
  async remove(key: string): Promise<void> {
    const name = fileName(key);
    if (this.#records.delete(name)) await this.#save(name);
  }

  /** Makes the file match the memory. Concurrent calls for one file run one after another, so that the last one writes the newest record. */
  async #save(name: string): Promise<void> {
    const file = join(this.#options.directory, name);
    await this.#writes.run(name, async () => {
      const record = this.#records.get(name);
      await (record === undefined
        ? rm(file, { force: true })
        : writeAtomic(file, JSON.stringify(record), { temporary: `${file}${temporarySuffix}` }));
    });
  }
}
