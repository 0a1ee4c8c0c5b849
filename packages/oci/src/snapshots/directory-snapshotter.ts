import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Digest } from '../content/digest.ts';
import { layerLease, type Leases } from '../content/leases.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import { diskError } from '../disk-error.ts';
import type { TreeWorkers } from '../layers/tree-workers.ts';
import { OciError } from '../oci-error.ts';
import type { RootFilesystem, Snapshot, SnapshotRequest, Snapshotter, SnapshotterKind, SnapshotUsage } from '../snapshotter.ts';
import type { DriverSnapshot, SnapshotDriver } from './drivers.ts';

export interface DirectorySnapshotterOptions {
  readonly directory: string;
  readonly driver: SnapshotDriver;
  readonly layers: LayerStore;
  readonly leases: Leases;
  readonly workers: TreeWorkers;
  readonly clock: Clock;
  readonly log: Logger;
  /** Returns the chain ids of an image, or undefined if the store does not have it. */
  chainIdsOf(image: string): readonly Digest[] | undefined;
}

interface SnapshotRecord extends Snapshot {
  readonly chainIds: readonly Digest[];
  /** The snapshotter that made the snapshot. */
  readonly driver: SnapshotterKind;
}

const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const usageValidMs = 10_000;

/** Snapshots in `snapshots/KEY`, each with `snapshot.json`. A snapshot appears and disappears by a rename. */
export class DirectorySnapshotter implements Snapshotter {
  readonly #options: DirectorySnapshotterOptions;
  readonly #records = new Map<string, SnapshotRecord>();
  readonly #locks = new KeyedLock();
  #usage: { readonly at: number; readonly value: Promise<SnapshotUsage> } | undefined;

  private constructor(options: DirectorySnapshotterOptions) {
    this.#options = options;
  }

  static async open(options: DirectorySnapshotterOptions): Promise<DirectorySnapshotter> {
    const { directory, log } = options;
    const snapshotter = new DirectorySnapshotter(options);
    const folder = join(directory, 'snapshots');
    await mkdir(folder, { recursive: true, mode: 0o711 });
    for (const key of await readdir(folder)) {
      try {
        const record = JSON.parse(await readFile(join(folder, key, 'snapshot.json'), 'utf8')) as SnapshotRecord;
        snapshotter.#records.set(key, record);
      } catch (error) {
        log.warn({ err: error, snapshot: key }, 'removing a snapshot without a readable record');
        await snapshotter.#discard(join(folder, key));
      }
    }
    return snapshotter;
  }

  get kind(): SnapshotterKind {
    return this.#options.driver.kind;
  }
  list(): readonly Snapshot[] {
    return [...this.#records.values()].map(({ key, image, kind }) => ({ key, image, kind }));
  }
  prepare(request: SnapshotRequest, signal?: AbortSignal): Promise<RootFilesystem> {
    return this.#make(request, 'container', signal);
  }
  view(request: SnapshotRequest, signal?: AbortSignal): Promise<RootFilesystem> {
    return this.#make(request, 'view', signal);
  }

  root(key: string): Promise<RootFilesystem | undefined> {
    const record = this.#records.get(key);
    return Promise.resolve(record && this.#options.driver.root(this.#driverSnapshot(record)));
  }

  remove(key: string): Promise<void> {
    return this.#locks.run(key, async () => {
      if (!this.#records.has(key)) return;
      await this.#discard(this.#folder(key), () => {
        this.#records.delete(key);
        this.#usage = undefined;
      });
    });
  }

  async usage(key: string, signal?: AbortSignal): Promise<SnapshotUsage> {
    if (!this.#records.has(key)) throw new OciError('NotFound', `snapshot ${key}: not found`);
    return this.#measure(this.#options.driver.usageFolder(this.#folder(key)), signal);
  }

  /** Returns the usage of all snapshots, at most ten seconds old. */
  totalUsage(): Promise<SnapshotUsage> {
    const now = this.#options.clock.monotonic();
    if (!this.#usage || now - this.#usage.at > usageValidMs) {
      const value = this.#measure(join(this.#options.directory, 'snapshots'));
      this.#usage = { at: now, value };
      value.catch(() => {
        this.#usage = undefined; // the caller receives the failure
      });
    }
    return this.#usage.value;
  }

  /** Returns the chain ids of all layers in use. */
  *layersInUse(): Iterable<Digest> {
    for (const { chainIds } of this.#records.values()) yield* chainIds;
  }

  async #measure(path: string, signal?: AbortSignal): Promise<SnapshotUsage> {
    const { usedBytes, inodes } = await this.#options.workers.run('usage', { path }, signal);
    return { usedBytes, inodesUsed: inodes };
  }

  #make({ key, image }: SnapshotRequest, kind: Snapshot['kind'], signal = new AbortController().signal): Promise<RootFilesystem> {
    if (!keyPattern.test(key)) throw new OciError('InvalidReference', `"${key}" is not a name of a snapshot`);
    return this.#locks.run(key, async () => {
      signal.throwIfAborted();
      const existing = this.#records.get(key);
      if (existing) {
        if (existing.image !== image || existing.kind !== kind)
          throw new OciError('InUse', `the snapshot ${key} exists for the image ${existing.image}`);
        return this.#options.driver.root(this.#driverSnapshot(existing));
      }
      const { chainIdsOf, leases, driver } = this.#options;
      const chainIds = chainIdsOf(image);
      if (!chainIds) throw new OciError('NotFound', `the image ${image} is not in the store`);
      const release = leases.hold(chainIds.map(layerLease));
      try {
        const record: SnapshotRecord = { key, image, kind, chainIds, driver: driver.kind };
        await this.#create(record, signal);
        return driver.root(this.#driverSnapshot(record));
      } finally {
        release();
      }
    });
  }

  async #create(record: SnapshotRecord, signal: AbortSignal): Promise<void> {
    const { directory, driver } = this.#options;
    const ingest = join(directory, 'ingest', randomBytes(8).toString('hex'));
    await mkdir(ingest, { mode: 0o711 });
    try {
      await driver.create({ ...this.#driverSnapshot(record), folder: ingest }, signal);
      // not synchronized: `open` removes a snapshot without a readable record, and no container survives a power failure
      await writeFile(join(ingest, 'snapshot.json'), JSON.stringify(record));
      await rename(ingest, this.#folder(record.key));
      this.#records.set(record.key, record);
      this.#usage = undefined;
    } catch (error) {
      await this.#discard(ingest);
      throw diskError(error);
    }
  }

  #folder(key: string): string {
    return join(this.#options.directory, 'snapshots', key);
  }

  #driverSnapshot(record: SnapshotRecord): DriverSnapshot {
    const { driver } = this.#options;
    if ((record.driver === 'copy') !== (driver.kind === 'copy'))
      throw new OciError(
        'FailedPrecondition',
        `the snapshot ${record.key} was made by the snapshotter ${record.driver}, and this one is ${driver.kind}`,
      );
    const layers = this.#options.layers.chain(record.chainIds);
    if (!layers) throw new OciError('NotFound', `a layer of the snapshot ${record.key} is absent`);
    return { kind: record.kind, folder: this.#folder(record.key), layers };
  }

  async #discard(folder: string, onRenamed?: () => void): Promise<void> {
    const trash = join(this.#options.directory, 'trash', randomBytes(8).toString('hex'));
    await rename(folder, trash);
    onRenamed?.();
    await this.#options.workers.run('remove', { path: trash });
    await rm(trash, { recursive: true, force: true });
  }
}
