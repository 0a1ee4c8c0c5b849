import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Attachment } from '@oarlock/spi/network';

/** A pod's end of a cable, written before the first change: what a crash cuts off is taken back by it. */
export interface Endpoint {
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  /** The node's end. */
  readonly hostInterface: string;
  readonly ips: readonly string[];
  /** `NAMESPACE/NAME`, for who looks at the file. */
  readonly pod: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
}
type Key = Pick<Attachment, 'containerId' | 'ifName'>;
export const endpointKey = ({ containerId, ifName }: Key): string => `${containerId}~${ifName}`;

/** The same name for the same attachment, also after everything else was forgotten. */
export function hostInterfaceOf(prefix: string, key: Key): string {
  return `${prefix}${createHash('sha1')
    .update(endpointKey(key))
    .digest('hex')
    .slice(0, 15 - prefix.length)}`;
}

const partial = '.new-';

/** The endpoints of this node, on disk and in memory: a file each, mode 0600, that appears whole. */
export class EndpointRecords {
  readonly #directory: string;
  readonly #records = new Map<string, Endpoint>();
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** The names of files that could not be read, which a power failure may leave. They are removed: no pod outlives that. */
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
    await writeFile(temporary, JSON.stringify(record), { mode: 0o600, flag: 'wx' });
    await rename(temporary, join(this.#directory, endpointKey(record)));
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
