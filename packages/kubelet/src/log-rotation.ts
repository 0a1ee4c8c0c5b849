import { createReadStream, createWriteStream } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { RuntimeDriver } from '@oarlock/spi/runtime';

export interface WrittenLog {
  readonly path: string;
  readonly containerId: string;
  readonly driver: RuntimeDriver;
}

export interface LogRotationOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly maxSizeBytes: number;
  /** Of one container, the one that is written included. */
  readonly maxFiles: number;
  /** Milliseconds. */
  readonly everyMs: number;
  /** Logs that are being written now. */
  logs(): Iterable<WrittenLog>;
}

const missing = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
};

/** `20260131-120000`: names sort as the times do. */
const stamp = (now: number) => new Date(now).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');

/** Moves logs that have grown away and keeps the last few; all but the newest of them are compressed. Nothing tells of a file's size: it is looked at. */
export class LogRotation {
  readonly #options: LogRotationOptions;
  #timer: Timer | undefined;

  constructor(options: LogRotationOptions) {
    this.#options = options;
  }

  start(): void {
    const { clock, everyMs, signal, log } = this.#options;
    if (signal.aborted) return;
    this.#timer = clock.after(everyMs, () => {
      void this.look()
        .catch((error: unknown) => {
          if (!signal.aborted) log.warn({ err: error }, 'container logs could not be looked at');
        })
        .finally(() => this.start());
    });
  }

  stop(): void {
    this.#timer?.cancel();
  }

  async look(): Promise<void> {
    const { maxSizeBytes, log } = this.#options;
    for (const written of this.#options.logs()) {
      const stats = await stat(written.path).catch(missing);
      if (stats === undefined || stats.size < maxSizeBytes) continue;
      await this.#rotate(written).catch((error: unknown) =>
        log.warn({ err: error, path: written.path }, 'a container log could not be rotated'),
      );
    }
  }

  async #rotate({ path, containerId, driver }: WrittenLog): Promise<void> {
    const { clock, maxFiles, signal } = this.#options;
    const directory = dirname(path);
    const prefix = `${basename(path)}.`;
    const rotated = (await readdir(directory)).filter((name) => name.startsWith(prefix) && !name.endsWith('.tmp')).sort();
    // one place is for the file that is moved now, one for the file that is written
    for (const name of rotated.splice(0, Math.max(0, rotated.length - (maxFiles - 2)))) await rm(join(directory, name), { force: true });
    for (const name of rotated) if (!name.endsWith('.gz')) await compress(join(directory, name));
    const moved = `${path}.${stamp(clock.now())}`;
    await rename(path, moved);
    try {
      await driver.reopenContainerLog(containerId, { signal });
    } catch (error) {
      await rename(moved, path); // it is still written there
      throw error;
    }
  }
}

async function compress(path: string): Promise<void> {
  const temporary = `${path}.tmp`;
  try {
    await pipeline(createReadStream(path), createGzip(), createWriteStream(temporary, { mode: 0o640 }));
    await rename(temporary, `${path}.gz`);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await rm(path, { force: true });
}
