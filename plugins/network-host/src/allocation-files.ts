import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, readdir, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAddress } from './loopback-range.ts';

export interface Allocation {
  readonly containerId: string;
  readonly ifName: string;
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string };
}

const partial = '.new-';

/**
 * Stores allocations in one file per address. A file is created atomically and only if it does not exist, so that two processes never hold the same
 * address and a crash leaves no partial allocation. Files are not flushed to disk, because a power failure ends the pods too.
 */
export class AllocationFiles {
  readonly #directory: string;
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Reads all allocations, and removes the partial files that a crash left. */
  async load(): Promise<ReadonlyMap<string, Allocation>> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const held = new Map<string, Allocation>();
    for (const name of await readdir(this.#directory)) {
      if (name.startsWith(partial)) await this.#unlink(name);
      else if (parseAddress(name) !== undefined) {
        const allocation = parseAllocation(await readFile(join(this.#directory, name), 'utf8'));
        if (allocation) held.set(name, allocation);
        else await this.#unlink(name);
      }
    }
    return held;
  }

  /** Records an allocation. Returns false if the address is already allocated. */
  async claim(address: string, allocation: Allocation): Promise<boolean> {
    const temporary = join(this.#directory, `${partial}${randomUUID()}`);
    await writeFile(temporary, JSON.stringify(allocation), { mode: 0o600, flag: 'wx' });
    try {
      await link(temporary, join(this.#directory, address));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    } finally {
      await unlink(temporary);
    }
  }

  async has(address: string, { containerId, ifName }: Pick<Allocation, 'containerId' | 'ifName'>): Promise<boolean> {
    try {
      const found = parseAllocation(await readFile(join(this.#directory, address), 'utf8'));
      return found?.containerId === containerId && found.ifName === ifName;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }

  release(address: string): Promise<void> {
    return this.#unlink(address);
  }

  async #unlink(name: string): Promise<void> {
    try {
      await unlink(join(this.#directory, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
}

function parseAllocation(text: string): Allocation | undefined {
  try {
    const value = JSON.parse(text) as Partial<Allocation>;
    return typeof value.containerId === 'string' && typeof value.ifName === 'string' && value.pod ? (value as Allocation) : undefined;
  } catch {
    return undefined; // truncated by a full disk or a power failure: the allocation was never returned
  }
}
