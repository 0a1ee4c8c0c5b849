import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isAbsentOrTruncated } from '@oarlock/primitives/os/file-error';
import type { Attachment } from '@oarlock/spi/network';

/** The request to the network plugin for a sandbox, and the result. Stored by this plugin, because the engine has no field for it. */
export interface SandboxRecord {
  readonly attachment: Attachment;
  /** The addresses of the sandbox; undefined until the network plugin has returned. */
  readonly ips?: readonly string[];
}

/** Stores one file per connected sandbox, so that a restarted node can read the addresses and release them. */
export class SandboxRecords {
  readonly #directory: string;
  readonly #records = new Map<string, SandboxRecord>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Reads all records. Returns the names of truncated files (power failure). @throws Error if a file cannot be read */
  async load(): Promise<readonly string[]> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const broken: string[] = [];
    for (const name of await readdir(this.#directory)) {
      if (!/^[0-9a-f]{64}\.json$/.test(name)) continue;
      try {
        this.#records.set(name.slice(0, 64), JSON.parse(await readFile(join(this.#directory, name), 'utf8')) as SandboxRecord);
      } catch (error) {
        if (!isAbsentOrTruncated(error)) throw error;
        broken.push(name);
      }
    }
    return broken;
  }

  get(id: string): SandboxRecord | undefined {
    return this.#records.get(id);
  }

  async put(id: string, record: SandboxRecord): Promise<void> {
    const path = join(this.#directory, `${id}.json`);
    await writeFile(`${path}.new`, JSON.stringify(record), { mode: 0o600 });
    await rename(`${path}.new`, path);
    this.#records.set(id, record);
  }

  async remove(id: string): Promise<void> {
    this.#records.delete(id);
    await rm(join(this.#directory, `${id}.json`), { force: true });
  }
}
