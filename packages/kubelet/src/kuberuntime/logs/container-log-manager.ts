import { createReadStream, createWriteStream } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { RuntimeDriver } from '@oarlock/spi/runtime';

export interface ActiveLog {
  readonly path: string;
  readonly containerId: string;
  readonly driver: RuntimeDriver;
}

export interface ContainerLogManagerOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly maxSizeBytes: number;
  /** The maximum number of log files per container, including the current file. */
  readonly maxFiles: number;
  /** The period in which the sizes of logs are checked. Milliseconds. */
  readonly periodMs: number;
  /** Returns the logs of all running containers. */
  logs(): Iterable<ActiveLog>;
}

const missing = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
};

/** Returns the suffix of a rotated file, for example `20260131-120000`, so that names sort by time. */
const stamp = (now: number) => new Date(now).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');

/**
 * Rotates container logs by size, as upstream: keeps the newest files of each container and compresses all but the newest rotated file. The sizes
 * are polled.
 */
export class ContainerLogManager {
  readonly #options: ContainerLogManagerOptions;
  #timer: Timer | undefined;

  constructor(options: ContainerLogManagerOptions) {
    this.#options = options;
  }

  start(): void {
    const { clock, periodMs: everyMs, signal, log } = this.#options;
    if (signal.aborted) return;
    this.#timer = clock.after(everyMs, () => {
      void this.rotateLogs()
        .catch((error: unknown) => {
          if (!signal.aborted) log.warn({ err: error }, 'rotating container logs failed');
        })
        .finally(() => this.start());
    });
  }

  stop(): void {
    this.#timer?.cancel();
  }

  async rotateLogs(): Promise<void> {
    const { maxSizeBytes, log } = this.#options;
    for (const activeLog of this.#options.logs()) {
      const stats = await stat(activeLog.path).catch(missing);
      if (stats === undefined || stats.size < maxSizeBytes) continue;
      await this.#rotate(activeLog).catch((error: unknown) =>
        log.warn({ err: error, path: activeLog.path }, 'rotating a container log failed'),
      );
    }
  }

  async #rotate({ path, containerId, driver }: ActiveLog): Promise<void> {
    const { clock, maxFiles, signal } = this.#options;
    const directory = dirname(path);
    const prefix = `${basename(path)}.`;
    const rotated = (await readdir(directory)).filter((name) => name.startsWith(prefix) && !name.endsWith('.tmp')).sort();
    // keep one place for the file that is rotated now and one for the new file
    for (const name of rotated.splice(0, Math.max(0, rotated.length - (maxFiles - 2)))) await rm(join(directory, name), { force: true });
    for (const name of rotated) if (!name.endsWith('.gz')) await compress(join(directory, name));
    const moved = `${path}.${stamp(clock.now())}`;
    await rename(path, moved);
    try {
      await driver.reopenContainerLog(containerId, { signal });
    } catch (error) {
      await rename(moved, path); // the container still writes to this file
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
