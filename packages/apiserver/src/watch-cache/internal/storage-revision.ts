import { SharedCall } from '@oarlock/primitives/concurrency/shared-call';
import type { StorageDriver } from '@oarlock/spi/storage';
import { toStatusError } from '../../storage/storage-error.ts';

/** The newest revision of storage. */
export class StorageRevision {
  readonly #storage: StorageDriver;
  readonly #shared = new SharedCall(() => this.#request());

  constructor(storage: StorageDriver) {
    this.#storage = storage;
  }

  /** Returns true if storage is in this process and has no later revision. @throws StatusError if storage is not available */
  isReachedBy(revision: number): boolean {
    const storage = this.#storage;
    try {
      return storage.currentRevision !== undefined && storage.currentRevision() <= revision;
    } catch (error) {
      throw toStatusError(error);
    }
  }

  /** Requests the revision of storage, whose watch then reports progress. Concurrent callers share a request. @throws StatusError if storage does not respond in time */
  request(): Promise<number> {
    return this.#shared.call();
  }

  async #request(): Promise<number> {
    try {
      return await this.#storage.requestProgress();
    } catch (error) {
      throw toStatusError(error);
    }
  }
}
