import type { Health } from '@oarlock/spi/role';
import { join } from 'node:path';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { releaseLock, acquireLock, currentProcess } from '@oarlock/primitives/os/process-lock';
import { mvccDefaults, type MvccLimits } from '@oarlock/mvcc/mvcc-limits';
import { MvccStore } from '@oarlock/mvcc/mvcc-store';
import { validateWrites } from '@oarlock/mvcc/commit-validation';
import {
  StorageError,
  type ChangeBatch,
  type CommitResult,
  type Entry,
  type Precondition,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';
import { CommitBatch, type Job } from './commit-queue.ts';
import { commitsFrame } from './commit-records.ts';
import { systemDisk, type Disk, type DiskDirectory } from './disk.ts';
import { frameBytes } from './frames.ts';
import { Recovery } from './recovery.ts';
import { Snapshotter } from './snapshotter.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

export interface EmbeddedStorageOptions extends Partial<MvccLimits> {
  /** The directory of this store, which no other process may use. Created if it does not exist. */
  readonly directory: string;
  readonly maxValueBytes?: number;
  /** Maximum size of one file of the log, in bytes. */
  readonly segmentBytes?: number;
  /** Minimum size of the obsolete part of the log before a snapshot is made, in bytes. */
  readonly snapshotBytes?: number;
  readonly clock?: Clock;
  readonly log?: Logger;
  /** The file system operations; tests inject faults here. */
  readonly disk?: Disk;
}

const mebibyte = 1024 * 1024;
export const defaults = {
  ...mvccDefaults,
  maxValueBytes: 1.5 * mebibyte,
  segmentBytes: 16 * mebibyte,
  snapshotBytes: 32 * mebibyte,
} as const;

/** Limits of one commit, and of all commits that wait for the disk. */
const maxBytes = { commitBytes: 64 * mebibyte, waitingBytes: 128 * mebibyte };
const expiryRetrySeconds = 5;
const storageFull: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** An in-memory store with a write-ahead log on the local disk. A commit is visible only after it is on the disk. */
export class EmbeddedStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #options: Required<EmbeddedStorageOptions>;
  readonly #store: MvccStore;
  readonly #lockFile: string;
  #directory: DiskDirectory | undefined;
  #wal: WriteAheadLog | undefined;
  #snapshotter: Snapshotter | undefined;
  #queue: Job[] = [];
  #waitingBytes = 0;
  #flushing: Promise<void> | undefined;
  #stopping = false;
  #locked = false;
  #failure: StorageError | undefined;
  readonly #scratch = Buffer.allocUnsafeSlow(mebibyte);
  #batches = 0;
  #commits = 0;

  constructor({ clock = systemClock, log = silentLogger, disk = systemDisk, ...options }: EmbeddedStorageOptions) {
    this.#options = { ...defaults, ...options, clock, log, disk };
    const { maxValueBytes, ...limits } = this.#options;
    this.traits = { durable: true, shared: false, maxValueBytes };
    this.#lockFile = join(options.directory, 'lock');
    this.#store = new MvccStore({ ...limits, onExpired: (due) => this.#enqueue({ type: 'expire', due }) });
  }

  /** Returns the error of the last commit, such as a full disk. The next commit that succeeds clears it. */
  checkHealth(): Health {
    return this.#failure === undefined ? { healthy: true } : { healthy: false, reason: this.#failure.message };
  }

  /** Statistics for metrics. `steps` is the number of index entries visited. */
  get stats() {
    return {
      ...this.#store.stats,
      commits: this.#commits,
      batches: this.#batches,
      logBytes: this.#wal?.bytes ?? 0,
      segments: this.#wal?.segments ?? 0,
      snapshots: this.#snapshotter?.snapshots ?? 0,
      snapshotBytes: this.#snapshotter?.bytes ?? 0,
      isRejecting: this.#failure !== undefined,
    };
  }

  /** Recovers the data. @throws StorageError `Unavailable` if another process uses the directory, `Corrupt` with file and offset */
  async start(): Promise<void> {
    const { disk, directory } = this.#options;
    await disk.createDirectory(directory);
    const holder = await acquireLock(this.#lockFile, await currentProcess());
    if (holder) throw new StorageError('Unavailable', `${directory} is in use by process ${holder.pid}`);
    this.#locked = true;
    try {
      await this.#open();
    } catch (error) {
      await this.#closeDirectory();
      await this.#unlock();
      throw error;
    }
    this.#schedule();
  }

  async #open(): Promise<void> {
    const { disk, clock, log, segmentBytes, snapshotBytes, directory: path } = this.#options;
    const { segments, snapshot } = await new Recovery(disk, { directory: path, store: this.#store, now: clock.now(), log }).run();
    const directory = await disk.openDirectory(path);
    this.#directory = directory;
    const wal = new WriteAheadLog(disk, { directory, segments, segmentBytes, log });
    await wal.open(this.#store.revision);
    this.#snapshotter = new Snapshotter({ disk, directory, store: this.#store, wal, clock, log, minBytes: snapshotBytes }, snapshot);
    this.#wal = wal;
  }

  async #unlock(): Promise<void> {
    if (this.#locked) await releaseLock(this.#lockFile);
    this.#locked = false;
  }

  /** Stops the store after the commits in progress have finished. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#flushing;
    const error = new StorageError('Unavailable', 'the storage is stopped');
    this.#store.fail(error);
    for (const job of this.#queue.splice(0)) if (job.type !== 'expire') job.reject(error);
    await this.#snapshotter?.stop();
    await this.#wal?.close();
    this.#wal = undefined;
    await this.#closeDirectory();
    await this.#unlock();
  }

  async #closeDirectory(): Promise<void> {
    await this.#directory?.close();
    this.#directory = undefined;
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    return this.#store.get(key, revision);
  }

  async range(options: RangeOptions): Promise<Page> {
    return this.#store.range(options);
  }

  async commit(writes: readonly Write[], expect: readonly Precondition[]): Promise<CommitResult> {
    this.#checkOpen();
    validateWrites(writes, this.traits.maxValueBytes);
    let bytes = 0;
    for (const { key, value } of writes) bytes += 3 * key.length + (value?.length ?? 0);
    if (bytes > maxBytes.commitBytes)
      throw new StorageError('TooLarge', `the commit has ${bytes} bytes; the limit is ${maxBytes.commitBytes}`);
    if (this.#waitingBytes + bytes > maxBytes.waitingBytes)
      throw new StorageError('Unavailable', 'nothing was written: too many commits wait for the disk');
    this.#waitingBytes += bytes;
    try {
      return await new Promise<CommitResult>((resolve, reject) => {
        this.#enqueue({ type: 'commit', writes, expect, resolve, reject });
      });
    } finally {
      this.#waitingBytes -= bytes;
    }
  }

  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    return this.#store.watch(prefix, options);
  }

  async requestProgress(): Promise<Revision> {
    return this.#store.progress();
  }
  currentRevision(): Revision {
    return this.#store.currentRevision();
  }

  async compact(revision: Revision): Promise<void> {
    this.#checkOpen();
    if (!this.#store.compactable(revision)) return;
    await new Promise<void>((resolve, reject) => {
      this.#enqueue({ type: 'compact', revision, resolve, reject });
    });
    this.#snapshotter?.snapshotIfUseful();
  }

  async skipTo(revision: Revision): Promise<void> {
    this.#checkOpen();
    await new Promise<void>((resolve, reject) => {
      this.#enqueue({ type: 'skip', revision, resolve, reject });
    });
  }

  #checkOpen(): void {
    this.#store.checkRunning();
    if (this.#stopping || !this.#wal) throw new StorageError('Unavailable', 'the storage is not running');
  }

  #enqueue(job: Job): void {
    this.#queue.push(job);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#flushing || !this.#wal || this.#queue.length === 0 || this.#stopping) return;
    this.#flushing = this.#flush(this.#wal).finally(() => {
      this.#flushing = undefined;
      this.#schedule();
    });
  }

  /** Writes queued jobs in batches. Jobs that arrive during a write are in the next batch. */
  async #flush(wal: WriteAheadLog): Promise<void> {
    // commits of the same turn of the event loop form one batch
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    while (this.#queue.length > 0) {
      const batch = new CommitBatch(this.#store, this.#options.clock);
      let count = 0;
      while (count < this.#queue.length && !batch.full) batch.add(this.#queue[count++] as Job);
      this.#queue.splice(0, count);
      try {
        await this.#write(wal, batch);
      } catch (error) {
        this.#rejectBatch(wal, batch, error);
        continue;
      }
      if (this.#failure) this.#options.log.info({}, 'commits are accepted again');
      this.#failure = undefined;
      this.#batches += 1;
      this.#commits += batch.jobs.length;
      batch.done();
      this.#snapshotter?.snapshotIfUseful();
    }
  }

  async #write(wal: WriteAheadLog, batch: CommitBatch): Promise<void> {
    if (batch.records.length === 0) return;
    await wal.reserve(frameBytes(batch.bytes), this.#store.revision);
    await wal.append(commitsFrame(batch.records, batch.bytes, wal.salt, this.#scratch));
  }

  /** Rejects a batch that could not be written. None of its commits was visible. */
  #rejectBatch(wal: WriteAheadLog, batch: CommitBatch, cause: unknown): void {
    const { clean } = wal;
    const isFull = storageFull.has((cause as NodeJS.ErrnoException | null)?.code) && clean;
    const what = clean ? 'nothing was written' : 'it is unknown whether it was written';
    const error = isFull
      ? new StorageError('Full', `${what}: no space is left in ${this.#options.directory}`, { cause })
      : new StorageError('Unavailable', `${what}: ${String(cause)}`, { cause });
    if (this.#failure?.message !== error.message) this.#options.log.error({ error: String(cause) }, error.message);
    this.#failure = error;
    for (const job of batch.jobs) {
      if (job.type === 'expire') for (const due of job.due) this.#store.postponeExpiry(due, expiryRetrySeconds);
      else job.reject(error);
    }
  }
}
