import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Attachment } from '@oarlock/spi/network';

/** What identifies an attachment. */
export type AttachmentKey = Pick<Attachment, 'containerId' | 'ifName'>;

/** Returns the key as text, which is also the name of the record's file. */
export const attachmentKey = ({ containerId, ifName }: AttachmentKey): string => `${containerId}~${ifName}`;

/** How records of a type are read and named. */
export interface RecordType<T> {
  readonly keyOf: (record: T) => AttachmentKey;
  /** True if the parsed content of a file has the fields that a record needs. */
  readonly isRecord: (value: Partial<T>) => boolean;
}

const partial = '.new-';

/** One record per attachment, in memory and on disk: one file each, with mode 0600, written atomically. */
export class RecordFiles<T> {
  readonly #directory: string;
  readonly #type: RecordType<T>;
  readonly #records = new Map<string, T>();

  constructor(directory: string, type: RecordType<T>) {
    this.#directory = directory;
    this.#type = type;
  }

  /** Loads the records. Removes files that cannot be parsed, for example after a power failure, and returns their names. */
  async load(): Promise<readonly string[]> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const broken: string[] = [];
    for (const name of await readdir(this.#directory)) {
      const isPartial = name.startsWith(partial);
      const record = isPartial ? undefined : this.#parse(await readFile(join(this.#directory, name), 'utf8'));
      if (record !== undefined && attachmentKey(this.#type.keyOf(record)) === name) this.#records.set(name, record);
      else {
        if (!isPartial) broken.push(name);
        await this.#unlink(name);
      }
    }
    return broken;
  }

  get(key: AttachmentKey): T | undefined {
    return this.#records.get(attachmentKey(key));
  }
  get all(): readonly T[] {
    return [...this.#records.values()];
  }

  async put(record: T): Promise<void> {
    const key = attachmentKey(this.#type.keyOf(record));
    const temporary = join(this.#directory, `${partial}${randomUUID()}`);
    await writeAtomic(join(this.#directory, key), JSON.stringify(record), { temporary });
    this.#records.set(key, record);
  }

  async remove(key: AttachmentKey): Promise<void> {
    await this.#unlink(attachmentKey(key));
    this.#records.delete(attachmentKey(key));
  }

  async #unlink(name: string): Promise<void> {
    try {
      await unlink(join(this.#directory, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }

  #parse(text: string): T | undefined {
    try {
      const value = JSON.parse(text) as Partial<T>;
      return this.#type.isRecord(value) ? (value as T) : undefined;
    } catch {
      return undefined; // `load` reports the file
    }
  }
}
