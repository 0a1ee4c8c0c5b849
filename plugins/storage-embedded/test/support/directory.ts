import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemDisk, type Disk, type DiskDirectory, type DiskFile } from '../../src/disk.ts';

export async function makeDirectory(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'oarlock-embedded-'));
  return { path: join(path, 'store'), remove: () => rm(path, { recursive: true, force: true }) };
}

/** The disk of this machine with injectable faults. */
export class FaultyDisk implements Disk {
  /** Runs before every change; an exception replaces the result of the change. */
  onChange: (what: 'write' | 'truncate' | 'sync' | 'rename' | 'remove' | 'create', path: string) => void = () => undefined;
  /** True while the process has no free file descriptor: no file is opened. */
  withoutDescriptors = false;
  /** The number of bytes of a failing write that reach the disk. */
  partial = 0;
  #crashed = false;

  /** Discards all further changes, as kill -9 does. */
  crash(): void {
    this.#crashed = true;
  }

  #change(what: Parameters<FaultyDisk['onChange']>[0], path: string): void {
    if (this.#crashed) throw new Error('crashed');
    this.onChange(what, path);
  }

  #needDescriptor(): void {
    if (this.withoutDescriptors) throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
  }

  async createDirectory(path: string): Promise<void> {
    this.#change('create', path);
    await systemDisk.createDirectory(path);
  }
  async openDirectory(path: string): Promise<DiskDirectory> {
    this.#needDescriptor();
    const directory = await systemDisk.openDirectory(path);
    return {
      path,
      sync: async () => {
        this.#change('sync', path);
        await directory.sync();
      },
      close: () => directory.close(),
    };
  }
  list(path: string): Promise<readonly string[]> {
    return systemDisk.list(path);
  }
  async open(path: string, mode: 'read' | 'append' | 'create'): Promise<DiskFile> {
    this.#needDescriptor();
    if (mode === 'create') this.#change('create', path);
    const file = await systemDisk.open(path, mode);
    return {
      write: async (bytes, position) => {
        try {
          this.#change('write', path);
        } catch (error) {
          if (this.partial > 0) await file.write(bytes.subarray(0, Math.min(this.partial, bytes.length)), position);
          throw error;
        }
        await file.write(bytes, position);
      },
      read: (bytes, position) => file.read(bytes, position),
      size: () => file.size(),
      truncate: async (size) => {
        this.#change('truncate', path);
        await file.truncate(size);
      },
      sync: async () => {
        this.#change('sync', path);
        await file.sync();
      },
      close: () => file.close(),
    };
  }
  async rename(from: string, to: string): Promise<void> {
    this.#change('rename', to);
    await systemDisk.rename(from, to);
  }
  async remove(path: string): Promise<void> {
    this.#change('remove', path);
    await systemDisk.remove(path);
  }
}

/** Returns the system's error for a full disk. */
export const noSpace = (): Error => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
