import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { MvccStore, CurrentEntry } from '@oarlock/mvcc/mvcc-store';
import type { Disk, DiskDirectory } from './disk.ts';
import { jsonFrame } from './frames.ts';
import { snapshotName, type RecoveredState } from './recovery.ts';
import { entriesFrame, type SnapshotFooter, type SnapshotHeader } from './snapshot-file.ts';
import type { WriteAheadLog } from './write-ahead-log.ts';

export interface SnapshotterOptions {
  readonly disk: Disk;
  readonly directory: DiskDirectory;
  readonly store: MvccStore;
  readonly wal: WriteAheadLog;
  readonly clock: Clock;
  readonly log: Logger;
  /** Minimum number of log bytes that a snapshot must free; it must also free as many bytes as the last snapshot has. */
  readonly minBytes: number;
}

/** Limits of synchronous work per turn of the event loop. */
const slice = { keys: 500, bytes: 512 * 1024 };
/** Limit of unsynced bytes: a commit's own write waits for them. */
const syncBytes = 2 * 1024 * 1024;
/** Delay after a failed snapshot, in milliseconds. */
const retryMs = 30_000;

/** Replaces the old part of the log by a snapshot of the entries at its end, in the background. */
export class Snapshotter {
  readonly #options: SnapshotterOptions;
  #current: RecoveredState['snapshot'];
  #running: Promise<void> | undefined;
  #retryAt = 0;
  #stopped = false;
  /** Number of snapshots since the start. */
  snapshots = 0;

  constructor(options: SnapshotterOptions, current: RecoveredState['snapshot']) {
    this.#options = options;
    this.#current = current;
  }

  get bytes(): number {
    return this.#current?.bytes ?? 0;
  }

  /** Starts a snapshot if it would free enough of the log. */
  snapshotIfUseful(): void {
    const { store, wal, minBytes, clock, log } = this.#options;
    if (this.#running || this.#stopped || wal.coveredBy(store.compacted) < Math.max(minBytes, this.bytes)) return;
    if (clock.monotonic() < this.#retryAt) return;
    this.#running = this.#take()
      .catch((error: unknown) => {
        this.#retryAt = clock.monotonic() + retryMs;
        if (!this.#stopped) log.warn({ error: String(error), retryMs }, 'the snapshot failed; the log is not shortened');
      })
      .finally(() => {
        this.#running = undefined;
        // commits continued meanwhile
        this.snapshotIfUseful();
      });
  }

  /** Resolves when no snapshot is in progress. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** Stops the snapshotter and cancels the snapshot in progress. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #take(): Promise<void> {
    const { disk, directory, store, wal, log } = this.#options;
    const held = store.hold();
    const path = join(directory.path, snapshotName(held.revision));
    const temporary = `${path}.tmp`;
    let bytes: number;
    try {
      bytes = await this.#write(temporary, held.revision);
      await disk.rename(temporary, path);
      await directory.sync();
    } catch (error) {
      await disk.remove(temporary).catch((removeError: unknown) => {
        log.warn({ file: temporary, error: String(removeError) }, 'the file of a failed snapshot cannot be removed');
      });
      throw error;
    } finally {
      held.release();
    }
    const before = this.#current;
    this.#current = { path, bytes };
    this.snapshots += 1;
    await wal.remove(held.revision);
    if (before && before.path !== path) await disk.remove(before.path);
    log.debug({ revision: held.revision, bytes }, 'snapshot completed');
  }

  /** Writes the snapshot. Returns its size in bytes. */
  async #write(path: string, revision: number): Promise<number> {
    const { disk, store, clock } = this.#options;
    const salt = randomInt(2 ** 32 - 1);
    const file = await disk.open(path, 'create');
    try {
      let position = 0;
      let synced = 0;
      const write = async (frame: Buffer) => {
        if (this.#stopped) throw new Error('the storage is stopped');
        await file.write(frame, position);
        position += frame.length;
        if (position - synced < syncBytes) return;
        await file.sync();
        synced = position;
      };
      await write(jsonFrame('head', { format: 1, salt, revision } satisfies SnapshotHeader, 0));
      let entries = 0;
      for (let after: string | undefined, more = true; more; ) {
        const { entries: found, last } = store.readHeld(after, slice.keys);
        for (const part of parts(found)) {
          await write(entriesFrame(part, clock.now(), salt));
          entries += part.length;
        }
        after = last;
        more = last !== undefined;
      }
      await write(jsonFrame('foot', { entries } satisfies SnapshotFooter, salt));
      await file.sync();
      return position;
    } finally {
      await file.close();
    }
  }
}

/** Splits entries into parts of moderate size, each with at least one. */
function* parts(entries: readonly CurrentEntry[]): Generator<readonly CurrentEntry[]> {
  let first = 0;
  let bytes = 0;
  for (const [at, { entry }] of entries.entries()) {
    bytes += entry.value.length;
    if (bytes < slice.bytes) continue;
    yield entries.slice(first, at + 1);
    first = at + 1;
    bytes = 0;
  }
  if (first < entries.length) yield entries.slice(first);
}
