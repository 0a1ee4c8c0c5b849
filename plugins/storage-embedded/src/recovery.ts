import { join } from 'node:path';
import type { Logger } from '@oarlock/primitives/logger';
import type { MvccStore } from '@oarlock/mvcc/mvcc-store';
import { StorageError, type Revision } from '@oarlock/spi/storage';
import { readRecords, type LogRecord, type LoggedWrite } from './commit-records.ts';
import type { Disk, DiskFile } from './disk.ts';
import { frameKinds, FrameReader, headerBytes, type Frame } from './frames.ts';
import { readEntries, type SnapshotFooter, type SnapshotHeader } from './snapshot-file.ts';
import { isSegment, segmentName, type Segment, type SegmentHeader } from './write-ahead-log.ts';

export const snapshotName = (revision: Revision): string => `snapshot-${String(revision).padStart(16, '0')}`;
const isSnapshot = (name: string) => /^snapshot-\d{16}$/.test(name);
const revisionIn = (name: string) => Number(name.slice(name.lastIndexOf('-') + 1));

export interface RecoveredState {
  /** Oldest first. Writing continues at the position of the newest. */
  readonly segments: readonly Segment[];
  readonly snapshot: { readonly path: string; readonly bytes: number } | undefined;
}

/** Returns the error for a file that is damaged at `offset` in a way that a crash cannot cause. */
function corrupt(
  file: string,
  { offset, what, cause }: { readonly offset: number; readonly what: string; readonly cause?: unknown },
): StorageError {
  return new StorageError('Corrupt', `${file} is damaged at byte ${offset}: ${what}. Restore a backup, or the file.`, { cause });
}

/** The directory to recover from and the store to fill. */
export interface RecoveryOptions {
  readonly directory: string;
  readonly store: MvccStore;
  readonly now: number;
  readonly log: Logger;
}

/** Recovers a data directory into an empty store. An incomplete end of the log, as after a crash, is cut off; any other damage is an error. */
export class Recovery {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #store: MvccStore;
  readonly #now: number;
  readonly #log: Logger;

  constructor(disk: Disk, { directory, store, now, log }: RecoveryOptions) {
    this.#disk = disk;
    this.#directory = directory;
    this.#store = store;
    this.#now = now;
    this.#log = log;
  }

  /** Recovers the data directory. @throws StorageError `Corrupt` with the file and offset if a file is damaged */
  async run(): Promise<RecoveredState> {
    const names = [...(await this.#disk.list(this.#directory))].sort();
    for (const name of names) if (name.endsWith('.tmp')) await this.#disk.remove(this.#path(name));
    const snapshots = names.filter(isSnapshot);
    const newest = snapshots.pop();
    const snapshot = newest === undefined ? undefined : { path: this.#path(newest), bytes: await this.#snapshot(this.#path(newest)) };
    for (const name of snapshots) await this.#disk.remove(this.#path(name));
    const all = names.filter(isSegment);
    const needed = all.findLastIndex((name) => revisionIn(name) <= this.#store.revision);
    for (const name of all.slice(0, Math.max(0, needed))) await this.#disk.remove(this.#path(name));
    const segments: Segment[] = [];
    const paths = all.slice(Math.max(0, needed)).map((name) => this.#path(name));
    if (paths.length === 0 && newest !== undefined)
      throw corrupt(this.#directory, { offset: 0, what: `${newest} exists, and every file of the log is missing` });
    for (const [at, path] of paths.entries()) segments.push(await this.#segment(path, segments.length > 0, at === paths.length - 1));
    return { segments, snapshot };
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }

  /** Restores a snapshot. Returns its size in bytes. */
  async #snapshot(path: string): Promise<number> {
    return this.#reading(path, async (reader) => {
      const head = this.#headed(path, await reader.head<SnapshotHeader>());
      let entries = 0;
      for (let frame = await reader.next(); frame; frame = await reader.next()) {
        if (frame.kind === frameKinds.foot) {
          if ((JSON.parse(frame.payload.toString()) as SnapshotFooter).entries !== entries)
            throw corrupt(path, { offset: frame.offset, what: 'entries are missing' });
          this.#store.skipTo(head.revision);
          return reader.size;
        }
        const last = frame;
        for (const { entry, deadline } of decoded(path, last, () => readEntries(last.payload))) {
          this.#store.restore(entry, deadline === 0 ? undefined : Math.max(0, deadline - this.#now) / 1000);
          entries += 1;
        }
      }
      throw corrupt(path, { offset: reader.offset, what: 'the snapshot is not whole' });
    });
  }

  async #segment(path: string, follows: boolean, last: boolean): Promise<Segment> {
    return this.#reading(path, async (reader, file) => {
      const { after, salt } = this.#headed(path, await reader.head<SegmentHeader>());
      if (follows ? after !== this.#end : after > this.#store.revision)
        throw corrupt(path, {
          offset: 0,
          what: `it begins after revision ${after}, and what comes before it ends at ${follows ? this.#end : this.#store.revision}`,
        });
      this.#end = after;
      for (let frame = await reader.next(); frame; frame = await reader.next()) {
        const current = frame;
        if (current.kind === frameKinds.continued) {
          if (last)
            throw corrupt(path, { offset: current.offset, what: `the log continues in ${segmentName(this.#end)}, which is missing` });
          continue;
        }
        for (const record of decoded(path, current, () => readRecords(current.payload))) this.#replay(record);
      }
      const position = reader.offset;
      // a crash may have cut off the mark at the end of a segment that another one continues
      if (!last && !(await reader.dirty(position + headerBytes))) return { path, after, salt, position };
      if (await reader.dirty()) {
        const later = await reader.later();
        if (later !== undefined) throw corrupt(path, { offset: position, what: `what follows at byte ${later} is whole` });
        if (!last) throw corrupt(path, { offset: position, what: 'the log goes on in another file' });
        this.#log.warn({ file: path, from: position, to: reader.size }, 'the end of the log was written in part: it is cut off');
        await file.truncate(position);
        await file.sync();
      }
      return { path, after, salt, position };
    });
  }

  /** Revision of the last record read from the log. */
  #end: Revision = 0;

  #replay(record: LogRecord): void {
    if (record.type === 'compact') {
      if (record.revision > this.#store.compacted) void this.#store.compact(Math.min(record.revision, this.#store.revision));
      return;
    }
    this.#end = record.revision;
    if (record.revision <= this.#store.revision) return;
    if (record.type === 'skip') this.#store.skipTo(record.revision);
    else
      this.#store.apply(
        record.writes.map((write) => this.#timed(write)),
        record.revision,
      );
  }

  /** Replaces the ttl of a write by its remaining time. It never exceeds the original one, in case the clock was set back. */
  #timed({ deadline, ...write }: LoggedWrite): LoggedWrite {
    const { ttlSeconds } = write;
    if (ttlSeconds === undefined) return { ...write, deadline };
    return { ...write, deadline, ttlSeconds: Math.min(ttlSeconds, Math.max(0, deadline - this.#now) / 1000) };
  }

  #headed<T extends { readonly format: number }>(path: string, head: T | undefined): T {
    if (head === undefined) throw corrupt(path, { offset: 0, what: 'its head is not whole' });
    if (head.format !== 1)
      throw corrupt(path, { offset: 0, what: `its format ${String(head.format)} is not known here: a newer release wrote it` });
    return head;
  }

  async #reading<T>(path: string, work: (reader: FrameReader, file: DiskFile) => Promise<T>): Promise<T> {
    const file = await this.#disk.open(path, 'append');
    try {
      return await work(await FrameReader.open(file), file);
    } finally {
      await file.close();
    }
  }
}

function* decoded<T>(path: string, frame: Frame, read: () => Iterable<T>): Generator<T> {
  try {
    yield* read();
  } catch (error) {
    throw error instanceof StorageError ? error : corrupt(path, { offset: frame.offset, what: String(error), cause: error });
  }
}
