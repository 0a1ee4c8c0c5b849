import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { MvccStore, Standing } from '@oarlock/mvcc/mvcc-store';
import type { Disk } from './disk.ts';
import { jsonFrame } from './frames.ts';
import { snapshotName, type Recovered } from './recovery.ts';
import { entriesFrame, type SnapshotFoot, type SnapshotHead } from './snapshot-file.ts';
import type { WriteAheadLog } from './write-ahead-log.ts';

export interface SnapshotterOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly store: MvccStore;
  readonly wal: WriteAheadLog;
  readonly clock: Clock;
  readonly log: Logger;
  /** A snapshot is worth its while when it frees so many bytes of the log, and as many as the last one has. */
  readonly minBytes: number;
}

/** Keys looked at, and bytes encoded, without giving others their turn. */
const slice = { keys: 500, bytes: 512 * 1024 };
/** So much may wait to be written out: a commit's own write would have to wait for it. */
const syncBytes = 2 * 1024 * 1024;
/** After a failure, by disk space or otherwise. */
const retryMs = 30_000;

/** Replaces the old end of the log by what stood where it ended, beside all other work. */
export class Snapshotter {
  readonly #options: SnapshotterOptions;
  #current: Recovered['snapshot'];
  #running: Promise<void> | undefined;
  #retryAt = 0;
  #stopped = false;
  /** Snapshots made since the start. */
  taken = 0;

  constructor(options: SnapshotterOptions, current: Recovered['snapshot']) {
    this.#options = options;
    this.#current = current;
  }

  get bytes(): number {
    return this.#current?.bytes ?? 0;
  }

  /** Begins one if that is worth it. */
  consider(): void {
    const { store, wal, minBytes, clock, log } = this.#options;
    if (this.#running || this.#stopped || wal.coveredBy(store.compacted) < Math.max(minBytes, this.bytes)) return;
    if (clock.monotonic() < this.#retryAt) return;
    this.#running = this.#take()
      .catch((error: unknown) => {
        this.#retryAt = clock.monotonic() + retryMs;
        if (!this.#stopped) log.warn({ error: String(error), retryMs }, 'no snapshot could be made: the log stays as long as it is');
      })
      .finally(() => {
        this.#running = undefined;
        // commits went on meanwhile
        this.consider();
      });
  }

  /** Resolves when none is being made. */
  async settled(): Promise<void> {
    await this.#running;
  }

  /** Gives up the one that is being made. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #take(): Promise<void> {
    const { disk, directory, store, wal, log } = this.#options;
    const held = store.hold();
    const path = join(directory, snapshotName(held.revision));
    const temporary = `${path}.tmp`;
    let bytes: number;
    try {
      bytes = await this.#write(temporary, held.revision);
      await disk.rename(temporary, path);
      await disk.syncDirectory(directory);
    } catch (error) {
      await disk.remove(temporary).catch((also: unknown) => {
        log.warn({ file: temporary, error: String(also) }, 'a snapshot that was given up cannot be removed');
      });
      throw error;
    } finally {
      held.release();
    }
    const before = this.#current;
    this.#current = { path, bytes };
    this.taken += 1;
    await wal.remove(held.revision);
    if (before && before.path !== path) await disk.remove(before.path);
    log.debug({ revision: held.revision, bytes }, 'a snapshot was made');
  }

  /** Returns how many bytes it has. */
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
      await write(jsonFrame('head', { format: 1, salt, revision } satisfies SnapshotHead, 0));
      let entries = 0;
      for (let after: string | undefined, more = true; more; ) {
        const { entries: found, last } = store.stretch(after, slice.keys);
        for (const part of parts(found)) {
          await write(entriesFrame(part, clock.now(), salt));
          entries += part.length;
        }
        after = last;
        more = last !== undefined;
      }
      await write(jsonFrame('foot', { entries } satisfies SnapshotFoot, salt));
      await file.sync();
      return position;
    } finally {
      await file.close();
    }
  }
}

/** As many entries as make a frame of moderate size, at least one. */
function* parts(entries: readonly Standing[]): Generator<readonly Standing[]> {
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
