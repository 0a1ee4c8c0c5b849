import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Attachment } from '@oarlock/spi/network';

/** The record of a pod's network interface. It is written before the first change, so that an interrupted ADD can be reverted. */
export interface Endpoint {
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  /** The name of the host end of the veth pair. */
  readonly hostInterface: string;
  readonly ips: readonly string[];
  /** The pod as `NAMESPACE/NAME`, for administrators. */
  readonly pod: string;
  /** The time of the ADD, in milliseconds since the epoch. */
  readonly since: number;
}
type Key = Pick<Attachment, 'containerId' | 'ifName'>;
export const endpointKey = ({ containerId, ifName }: Key): string => `${containerId}~${ifName}`;

/** Returns the name of the host interface, which is a hash of the attachment, so that the name does not depend on stored state. */
export function hostInterfaceOf(prefix: string, key: Key): string {
  return `${prefix}${createHash('sha1')
    .update(endpointKey(key))
    .digest('hex')
    .slice(0, 15 - prefix.length)}`;
}

const partial = '.new-';

/** Stores the endpoints of this node in memory and on disk: one file per endpoint, with mode 0600, written atomically. */
export class EndpointRecords {
  readonly #directory: string;
  readonly #records = new Map<string, Endpoint>();
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Loads the records. Removes files that cannot be read, which a power failure may leave, and returns their names. No pod survives a power failure. */
  async load(): Promise<readonly string[]> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const broken: string[] = [];
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      const record = name.startsWith(partial) ? undefined : parse(await readFile(path, 'utf8'));
      if (record && endpointKey(record) === name) this.#records.set(name, record);
      else {
        if (!name.startsWith(partial)) broken.push(name);
        await unlink(path);
      }
    }
    return broken;
  }
  get(key: Key): Endpoint | undefined {
    return this.#records.get(endpointKey(key));
  }
  get all(): readonly Endpoint[] {
    return [...this.#records.values()];
  }
  async put(record: Endpoint): Promise<void> {
    const temporary = join(this.#directory, `${partial}${randomUUID()}`);
    await writeAtomic(join(this.#directory, endpointKey(record)), JSON.stringify(record), { temporary });
    this.#records.set(endpointKey(record), record);
  }
  async remove(key: Key): Promise<void> {
    if (!this.#records.has(endpointKey(key))) return;
    await unlink(join(this.#directory, endpointKey(key)));
    this.#records.delete(endpointKey(key));
  }
}

function parse(text: string): Endpoint | undefined {
  try {
    const record = JSON.parse(text) as Partial<Endpoint>;
    return typeof record.containerId === 'string' && Array.isArray(record.ips) ? (record as Endpoint) : undefined;
  } catch {
    return undefined; // the caller reports it
  }
}
