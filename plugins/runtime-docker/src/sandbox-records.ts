import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Attachment } from '@oarlock/spi/network';

/** What the network plugin was asked for a sandbox, and what came of it. The engine has nowhere to keep it. */
export interface SandboxRecord {
  readonly attachment: Attachment;
  /** Absent while nobody knows whether the sandbox is connected. */
  readonly ips?: readonly string[];
}

/** One file per connected sandbox, so that a node's next start knows its addresses and can give them back. */
export class SandboxRecords {
  readonly #directory: string;
  readonly #records = new Map<string, SandboxRecord>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Returns the names of files that are no records. */
  async load(): Promise<readonly string[]> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const broken: string[] = [];
    for (const name of await readdir(this.#directory)) {
      if (!/^[0-9a-f]{64}\.json$/.test(name)) continue;
      try {
        this.#records.set(name.slice(0, 64), JSON.parse(await readFile(join(this.#directory, name), 'utf8')) as SandboxRecord);
      } catch {
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
