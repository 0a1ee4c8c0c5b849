import { join } from 'node:path';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import { silentLogger, type Logger } from '@oarlock/kernel/logger';
import { releaseLock, takeLock, thisProcess } from '@oarlock/kernel/process-lock';
import { mvccDefaults, type MvccLimits } from '@oarlock/mvcc/mvcc-limits';
import { MvccStore } from '@oarlock/mvcc/mvcc-store';
import { checkWrites } from '@oarlock/mvcc/write-rules';
import {
  StorageError,
  type ChangeBatch,
  type Commit,
  type Entry,
  type Expectation,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';
import { Batch, type Job } from './commit-queue.ts';
import { commitsFrame } from './commit-records.ts';
import { systemDisk, type Disk } from './disk.ts';
import { frameBytes } from './frames.ts';
import { Recovery } from './recovery.ts';
import { Snapshotter } from './snapshotter.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

export interface EmbeddedStorageOptions extends Partial<MvccLimits> {
  /** A directory for this store alone; made when it is not there. */
  readonly directory: string;
  readonly maxValueBytes?: number;
  /** The log goes on in another file after so many bytes. */
  readonly segmentBytes?: number;
  /** A snapshot is made when so much of the log is history that nobody may read any more, at least. */
  readonly snapshotBytes?: number;
  readonly clock?: Clock;
  readonly log?: Logger;
  /** For tests that let it fail. */
  readonly disk?: Disk;
}

const mebibyte = 1024 * 1024;
export const defaults = {
  ...mvccDefaults,
  maxValueBytes: 1.5 * mebibyte,
  segmentBytes: 16 * mebibyte,
  snapshotBytes: 32 * mebibyte,
} as const;

/** Of one commit, and of all commits that wait. */
const most = { commitBytes: 64 * mebibyte, waitingBytes: 128 * mebibyte };
const expireAgainSeconds = 5;
const noRoom: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** A store in memory behind a write-ahead log on the local disk: what anybody sees is on the disk. */
export class EmbeddedStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #options: Required<EmbeddedStorageOptions>;
  readonly #store: MvccStore;
  readonly #lockFile: string;
  #wal: WriteAheadLog | undefined;
  #snapshotter: Snapshotter | undefined;
  #queue: Job[] = [];
  #waitingBytes = 0;
  #flushing: Promise<void> | undefined;
  #stopping = false;
  #locked = false;
  #refused: StorageError | undefined;
  readonly #scratch = Buffer.allocUnsafeSlow(mebibyte);
  #batches = 0;
  #commits = 0;

  constructor({ clock = systemClock, log = silentLogger, disk = systemDisk, ...options }: EmbeddedStorageOptions) {
    this.#options = { ...defaults, ...options, clock, log, disk };
    const { maxValueBytes, ...limits } = this.#options;
    this.traits = { durable: true, shared: false, maxValueBytes };
    this.#lockFile = join(options.directory, 'lock');
    this.#store = new MvccStore({ ...limits, expired: (due) => this.#enqueue({ type: 'expire', due }) });
  }

  /** For metrics. `steps`: index entries that were looked at. */
  get stats() {
    return {
      ...this.#store.stats,
      commits: this.#commits,
      batches: this.#batches,
      logBytes: this.#wal?.bytes ?? 0,
      segments: this.#wal?.segments ?? 0,
      snapshots: this.#snapshotter?.taken ?? 0,
      snapshotBytes: this.#snapshotter?.bytes ?? 0,
      refusing: this.#refused !== undefined,
    };
  }

  /** Reads what is there. @throws StorageError `Unavailable` when another process has the directory, `Corrupt` with file and offset */
  async start(): Promise<void> {
    const { disk, directory } = this.#options;
    await disk.directory(directory);
    const holder = await takeLock(this.#lockFile, await thisProcess());
    if (holder) throw new StorageError('Unavailable', `${directory} is in use by process ${holder.pid}`);
    this.#locked = true;
    try {
      await this.#open();
    } catch (error) {
      await this.#unlock();
      throw error;
    }
    this.#schedule();
  }

  async #open(): Promise<void> {
    const { disk, directory, clock, log, segmentBytes, snapshotBytes } = this.#options;
    const { segments, snapshot } = await new Recovery(disk, directory, this.#store, clock.now(), log).run();
    const wal = new WriteAheadLog(disk, directory, segments, segmentBytes, log);
    await wal.open(this.#store.revision);
    this.#snapshotter = new Snapshotter({ disk, directory, store: this.#store, wal, clock, log, minBytes: snapshotBytes }, snapshot);
    this.#wal = wal;
  }

  async #unlock(): Promise<void> {
    if (this.#locked) await releaseLock(this.#lockFile);
    this.#locked = false;
  }

  /** Everything that was begun is finished first. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#flushing;
    const error = new StorageError('Unavailable', 'the storage is stopped');
    this.#store.fail(error);
    for (const job of this.#queue.splice(0)) if (job.type !== 'expire') job.reject(error);
    await this.#snapshotter?.stop();
    await this.#wal?.close();
    this.#wal = undefined;
    await this.#unlock();
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    return this.#store.get(key, revision);
  }

  async range(options: RangeOptions): Promise<Page> {
    return this.#store.range(options);
  }

  async commit(writes: readonly Write[], expect: readonly Expectation[]): Promise<Commit> {
    this.#checkOpen();
    checkWrites(writes, this.traits.maxValueBytes);
    let bytes = 0;
    for (const { key, value } of writes) bytes += 3 * key.length + (value?.length ?? 0);
    if (bytes > most.commitBytes) throw new StorageError('TooLarge', `a commit of ${bytes} bytes: at most ${most.commitBytes} are taken`);
    if (this.#waitingBytes + bytes > most.waitingBytes)
      throw new StorageError('Unavailable', 'nothing was written: too many commits wait for the disk');
    this.#waitingBytes += bytes;
    try {
      return await new Promise<Commit>((resolve, reject) => {
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

  async compact(revision: Revision): Promise<void> {
    this.#checkOpen();
    if (!this.#store.compactable(revision)) return;
    await new Promise<void>((resolve, reject) => {
      this.#enqueue({ type: 'compact', revision, resolve, reject });
    });
    this.#snapshotter?.consider();
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

  /** Whoever comes while a batch is being written is in the next one. */
  async #flush(wal: WriteAheadLog): Promise<void> {
    // requests that arrived in the same turn of the loop go together
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    while (this.#queue.length > 0) {
      const batch = new Batch(this.#store, this.#options.clock);
      let taken = 0;
      while (taken < this.#queue.length && !batch.full) batch.add(this.#queue[taken++] as Job);
      this.#queue.splice(0, taken);
      try {
        await this.#write(wal, batch);
      } catch (error) {
        this.#refuse(wal, batch, error);
        continue;
      }
      if (this.#refused) this.#options.log.info({}, 'commits are taken again');
      this.#refused = undefined;
      this.#batches += 1;
      this.#commits += batch.jobs.length;
      batch.done();
      this.#snapshotter?.consider();
    }
  }

  async #write(wal: WriteAheadLog, batch: Batch): Promise<void> {
    if (batch.records.length === 0) return;
    await wal.reserve(frameBytes(batch.bytes), this.#store.revision);
    await wal.append(commitsFrame(batch.records, batch.bytes, wal.salt, this.#scratch));
  }

  /** Nothing of the batch was seen by anybody. */
  #refuse(wal: WriteAheadLog, batch: Batch, cause: unknown): void {
    const { clean } = wal;
    const full = noRoom.has((cause as NodeJS.ErrnoException | null)?.code) && clean;
    const what = clean ? 'nothing was written' : 'it is unknown whether it was written';
    const error = full
      ? new StorageError('Full', `${what}: no room is left in ${this.#options.directory}`, { cause })
      : new StorageError('Unavailable', `${what}: ${String(cause)}`, { cause });
    if (this.#refused?.message !== error.message) this.#options.log.error({ error: String(cause) }, error.message);
    this.#refused = error;
    for (const job of batch.jobs) {
      if (job.type === 'expire') for (const due of job.due) this.#store.expireLater(due, expireAgainSeconds);
      else job.reject(error);
    }
  }
}
