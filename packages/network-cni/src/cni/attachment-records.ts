import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Attachment } from '@oarlock/spi/network';
import type { CniResult, NetworkList } from './protocol.ts';

/** The record of one attachment: written before the first CNI plugin runs, and again with the result of ADD. */
export interface AttachmentRecord {
  readonly attachment: Attachment;
  /** The configuration list that ADD used. CHECK and DEL must use the same list, even if the node's list has changed. */
  readonly list: NetworkList;
  /** The result of ADD; undefined while ADD runs and if ADD was interrupted. */
  readonly result?: CniResult;
}

type Key = Pick<Attachment, 'containerId' | 'ifName'>;
export const keyOf = ({ containerId, ifName }: Key) => `${containerId}~${ifName}`;
const partial = '.new-';

/** The records of the attachments that this process made, on disk (mode 0600, written atomically) and in memory. */
export class AttachmentRecords {
  readonly #directory: string;
  readonly #records = new Map<string, AttachmentRecord>();
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Loads the records. Removes files that cannot be parsed, for example after a power failure, and returns their names; GC frees the addresses
   * of these attachments.
   */
  async load(): Promise<readonly string[]> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const broken: string[] = [];
    for (const name of await readdir(this.#directory)) {
      if (name.startsWith(partial)) await this.#unlink(name);
      else {
        const record = parseRecord(await readFile(join(this.#directory, name), 'utf8'));
        if (record && keyOf(record.attachment) === name) this.#records.set(name, record);
        else {
          broken.push(name);
          await this.#unlink(name);
        }
      }
    }
    return broken;
  }

  get(key: Key): AttachmentRecord | undefined {
    return this.#records.get(keyOf(key));
  }
  get all(): readonly AttachmentRecord[] {
    return [...this.#records.values()];
  }

  async put(record: AttachmentRecord): Promise<void> {
    const temporary = join(this.#directory, `${partial}${randomUUID()}`);
    await writeAtomic(join(this.#directory, keyOf(record.attachment)), JSON.stringify(record), { temporary });
    this.#records.set(keyOf(record.attachment), record);
  }

  async remove(key: Key): Promise<void> {
    await this.#unlink(keyOf(key));
    this.#records.delete(keyOf(key));
  }

  async #unlink(name: string): Promise<void> {
    try {
      await unlink(join(this.#directory, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
}

function parseRecord(text: string): AttachmentRecord | undefined {
  try {
    const record = JSON.parse(text) as Partial<AttachmentRecord>;
    return record.attachment && record.list ? (record as AttachmentRecord) : undefined;
  } catch {
    return undefined; // the caller reports it
  }
}
