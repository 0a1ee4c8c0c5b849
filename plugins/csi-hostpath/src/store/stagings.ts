import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { VolumeCapability } from '@oarlock/csi/csi-types';

/** The stored record of a staged volume. */
interface StagingRecord {
  readonly path: string;
  readonly capability: string;
  /** The boot id of the machine. A record of another boot is obsolete, because a reboot ends all stagings. */
  readonly boot: string;
}

/** Records in one file per volume with which capability the volume is staged on this node. */
export class Stagings {
  readonly #directory: string;
  #boot: Promise<string> | undefined;

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'staged');
  }

  /** Returns true if the volume is staged at the path with another capability. */
  async differs(id: string, path: string, capability: VolumeCapability | undefined): Promise<boolean> {
    const text = await readFile(this.#file(id), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return undefined;
    });
    if (text === undefined) return false;
    const staged = JSON.parse(text) as StagingRecord;
    return staged.boot === (await this.#bootId()) && staged.path === path && staged.capability !== capabilityKey(capability);
  }

  async put(id: string, path: string, capability: VolumeCapability | undefined): Promise<void> {
    const staged: StagingRecord = { path, capability: capabilityKey(capability), boot: await this.#bootId() };
    await writeAtomic(this.#file(id), JSON.stringify(staged), { temporary: `${this.#file(id)}.next` });
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

const capabilityKey = ({ block, mount, accessMode }: VolumeCapability = {}) =>
  JSON.stringify([block !== undefined, mount?.fsType ?? '', [...(mount?.mountFlags ?? [])].sort(), accessMode?.mode]);
