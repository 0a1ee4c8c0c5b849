import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { VolumeCapability } from '@oarlock/csi/csi-types';

/** How a volume was staged. */
interface Staged {
  readonly path: string;
  readonly capability: string;
  /** Nothing is staged any more when the machine has been started anew. */
  readonly boot: string;
}

/** In which way volumes are staged on this node: a file each. */
export class Stagings {
  readonly #directory: string;
  #boot: Promise<string> | undefined;

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'staged');
  }

  /** Whether it is staged there in another way. */
  async differs(id: string, path: string, capability: VolumeCapability | undefined): Promise<boolean> {
    const text = await readFile(this.#file(id), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return undefined;
    });
    if (text === undefined) return false;
    const staged = JSON.parse(text) as Staged;
    return staged.boot === (await this.#bootId()) && staged.path === path && staged.capability !== wayOf(capability);
  }

  async put(id: string, path: string, capability: VolumeCapability | undefined): Promise<void> {
    const staged: Staged = { path, capability: wayOf(capability), boot: await this.#bootId() };
    await writeFile(`${this.#file(id)}.next`, JSON.stringify(staged), { mode: 0o600 });
    await rename(`${this.#file(id)}.next`, this.#file(id));
  }
  async remove(id: string): Promise<void> {
    await rm(this.#file(id), { force: true });
  }

  #file(id: string): string {
    return join(this.#directory, `${id}.json`);
  }
  #bootId(): Promise<string> {
    this.#boot ??= readFile('/proc/sys/kernel/random/boot_id', 'utf8').then(
      (text) => text.trim(),
      () => '',
    );
    return this.#boot;
  }
}

const wayOf = ({ block, mount, accessMode }: VolumeCapability = {}) =>
  JSON.stringify([block !== undefined, mount?.fsType ?? '', [...(mount?.mountFlags ?? [])].sort(), accessMode?.mode]);
