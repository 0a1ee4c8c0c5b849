import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { StorageSnapshot } from '@oarlock/spi/storage-server';
import { S3Error } from '../s3/s3-error.ts';
import type { S3Bucket, S3Object } from '../s3/s3-bucket.ts';
import type { S3Settings } from '../s3/s3-transport.ts';
import { scheduledPrefix, writeSnapshot } from './snapshots.ts';

/** The settings of the store of copies. */
export type SnapshotStoreSettings = S3Settings & Pick<RemoteSnapshotsOptions, 'folder' | 'retention'>;

export interface RemoteSnapshotsOptions {
  readonly bucket: Pick<S3Bucket, 'describe' | 'upload' | 'download' | 'list' | 'remove'>;
  /** The part of the keys before the names of the servers, without slashes at its ends. Empty for the root of the bucket. */
  readonly folder: string;
  readonly server: string;
  /** Number of scheduled snapshots of this server that are kept. */
  readonly retention: number;
}

/** Copies of snapshots in a bucket, at `FOLDER/SERVER/NAME`. */
export class RemoteSnapshots {
  readonly #options: RemoteSnapshotsOptions;

  constructor(options: RemoteSnapshotsOptions) {
    this.#options = options;
  }

  /** Uploads a snapshot, and removes the oldest scheduled ones of this server beyond the retention. @throws S3Error */
  async save({ name, path }: Pick<StorageSnapshot, 'name' | 'path'>, signal: AbortSignal): Promise<void> {
    const { bucket, retention } = this.#options;
    await bucket.upload(this.#key(name), path, signal);
    const scheduled = (await this.#ofThisServer(signal)).filter((snapshot) => snapshot.name.startsWith(scheduledPrefix));
    for (const old of scheduled.slice(0, Math.max(0, scheduled.length - retention))) await bucket.remove(this.#key(old.name), signal);
  }

  /** Returns true if the bucket has a snapshot of this server. */
  async has(name: string, signal: AbortSignal): Promise<boolean> {
    return (await this.#ofThisServer(signal)).some((snapshot) => snapshot.name === name);
  }

  /** Returns the snapshots of all servers, the oldest first. */
  list(signal: AbortSignal): Promise<readonly StorageSnapshot[]> {
    return this.#below(this.#prefix, signal);
  }

  /**
   * Downloads a snapshot to a file and verifies its digest. The name of a server and a slash may precede the name.
   * @throws S3Error `NotFound` if no server, or more than one server, has a snapshot of this name
   */
  async download(name: string, path: string, signal: AbortSignal): Promise<void> {
    const found = (await this.list(signal)).filter((snapshot) => snapshot.name === name || `${snapshot.server}/${snapshot.name}` === name);
    const [only] = found;
    if (only === undefined || found.length > 1)
      throw new S3Error(
        'NotFound',
        only === undefined
          ? `there is no snapshot ${name} in ${this.#options.bucket.describe(this.#prefix)}`
          : `several servers have a snapshot ${name}: name one of ${found.map((one) => `${one.server}/${one.name}`).join(', ')}`,
      );
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeSnapshot(path, this.#options.bucket.download(`${this.#prefix}${only.server}/${only.name}`, signal));
  }

  async #below(prefix: string, signal: AbortSignal): Promise<readonly StorageSnapshot[]> {
    const objects = await this.#options.bucket.list(prefix, signal);
    return objects.flatMap((object) => this.#describe(object)).sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  }

  get #prefix(): string {
    const { folder } = this.#options;
    return folder === '' ? '' : `${folder}/`;
  }

  #key(name: string): string {
    return `${this.#prefix}${this.#options.server}/${name}`;
  }

  #ofThisServer(signal: AbortSignal): Promise<readonly StorageSnapshot[]> {
    return this.#below(this.#key(''), signal);
  }

  /** Describes an object; returns nothing for other objects of the bucket. */
  #describe({ key, bytes, modifiedAt }: S3Object): readonly StorageSnapshot[] {
    const [server, name, ...rest] = key.slice(this.#prefix.length).split('/');
    if (server === undefined || name === undefined || name === '' || rest.length > 0) return [];
    return [{ name, server, path: this.#options.bucket.describe(key), bytes, createdAt: modifiedAt }];
  }
}
