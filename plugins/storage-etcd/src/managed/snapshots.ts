import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { StorageSnapshot } from '@oarlock/spi/storage-server';
import type { SnapshotResponse } from '../rpc/etcd-messages.ts';

/** Prefix of the names of scheduled snapshots, as in k3s. Retention applies to these only. */
export const scheduledPrefix = 'etcd-snapshot-';
const onDemandPrefix = 'on-demand-';
const nameForm = /^[A-Za-z0-9][\w.-]{0,127}$/;
const partial = '.part';
const digestBytes = 32;

export interface SnapshotsOptions {
  readonly directory: string;
  readonly server: string;
  /** Opens the stream of a member's snapshot. */
  readonly open: (signal: AbortSignal) => AsyncIterable<SnapshotResponse>;
  readonly clock: Clock;
}

/** The snapshots of this server, one file each. */
export class Snapshots {
  readonly #options: SnapshotsOptions;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }

  /** Writes a snapshot. @throws Error if the name is invalid or exists, or if the snapshot is damaged or incomplete */
  async save(signal: AbortSignal, name?: string): Promise<StorageSnapshot> {
    const { directory, server, clock } = this.#options;
    const chosen = name ?? `${onDemandPrefix}${server}-${Math.floor(clock.now() / 1000)}`;
    if (!nameForm.test(chosen) || chosen.endsWith(partial))
      throw new Error(
        `the name of a snapshot consists of letters, digits, '.', '_' and '-', and starts with a letter or digit: ${JSON.stringify(chosen)}`,
      );
    await mkdir(directory, { recursive: true, mode: 0o700 });
    if ((await this.list()).some((each) => each.name === chosen)) throw new Error(`there is a snapshot ${chosen} already`);
    await writeSnapshot(join(directory, chosen), blobsOf(this.#options.open(signal)));
    return this.#describe(chosen);
  }

  /** Writes a scheduled snapshot, and removes the oldest scheduled ones beyond `retention`. */
  async saveScheduled(signal: AbortSignal, retention: number): Promise<StorageSnapshot> {
    const { server, clock } = this.#options;
    const saved = await this.save(signal, `${scheduledPrefix}${server}-${Math.floor(clock.now() / 1000)}`);
    const scheduled = await this.#scheduled();
    for (const { path } of scheduled.slice(0, Math.max(0, scheduled.length - retention))) await rm(path, { force: true });
    return saved;
  }

  /** Returns all snapshots, the oldest first. */
  async list(): Promise<readonly StorageSnapshot[]> {
    const names = await readdir(this.#options.directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    const complete = names.filter((name) => nameForm.test(name) && !name.endsWith(partial));
    const snapshots = await Promise.all(complete.map((name) => this.#describe(name)));
    return snapshots.sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  }

  /**
   * Returns when the last scheduled snapshot was written, in milliseconds since the epoch; 0 if there is none. Ignores snapshots of the future: the
   * clock was set back, and the next one must not wait until then.
   */
  async lastScheduledAt(): Promise<number> {
    const now = this.#options.clock.now();
    const times = (await this.#scheduled()).map(({ createdAt }) => Date.parse(createdAt));
    return times.filter((at) => at <= now).at(-1) ?? 0;
  }

  /** Returns the newest scheduled snapshot. */
  async newestScheduled(): Promise<StorageSnapshot | undefined> {
    return (await this.#scheduled()).at(-1);
  }

  async #scheduled(): Promise<readonly StorageSnapshot[]> {
    return (await this.list()).filter(({ name }) => name.startsWith(scheduledPrefix));
  }

  async #describe(name: string): Promise<StorageSnapshot> {
    const path = join(this.#options.directory, name);
    const { size, mtime } = await stat(path);
    return { name, server: this.#options.server, path, bytes: size, createdAt: mtime.toISOString() };
  }
}

async function* blobsOf(responses: AsyncIterable<SnapshotResponse>): AsyncGenerator<Uint8Array> {
  for await (const { blob } of responses) yield blob;
}

/**
 * Writes a snapshot with mode 0600, which appears under its path when it is complete. @throws Error unless the last 32 bytes are the SHA-256 of the others,
 * as etcd sends them
 */
export async function writeSnapshot(path: string, blobs: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    await writeVerified(`${path}${partial}`, blobs);
    await rename(`${path}${partial}`, path);
  } catch (error) {
    await rm(`${path}${partial}`, { force: true });
    throw error;
  }
}

async function writeVerified(path: string, blobs: AsyncIterable<Uint8Array>): Promise<void> {
  const file = await open(path, 'w', 0o600);
  try {
    const hash = createHash('sha256');
    let held = Buffer.alloc(0);
    for await (const blob of blobs) {
      await file.writeFile(blob);
      const bytes = Buffer.concat([held, blob]);
      hash.update(bytes.subarray(0, Math.max(0, bytes.length - digestBytes)));
      held = bytes.subarray(Math.max(0, bytes.length - digestBytes));
    }
    if (held.length < digestBytes || !hash.digest().equals(held))
      throw new Error('the snapshot of etcd is damaged: its digest does not match');
    await file.sync();
  } finally {
    await file.close();
  }
}
