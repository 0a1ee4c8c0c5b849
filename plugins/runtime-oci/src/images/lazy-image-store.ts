import { existsSync } from 'node:fs';
import type { OpenImageStore } from '@oarlock/oci/store/open-image-store';

/** The image store of the runtime, opened at the first use: most clusters start without images, and the store is most of the plugin's code. */
export class LazyImageStore {
  readonly #directory: string;
  readonly #openStore: (directory: string) => Promise<OpenImageStore>;
  readonly #opened: (store: OpenImageStore) => Promise<void>;
  #store: Promise<OpenImageStore> | undefined;
  #closed = false;

  /** `opened` runs once, before the store is used. */
  constructor(
    directory: string,
    { open, opened }: { open(directory: string): Promise<OpenImageStore>; opened(store: OpenImageStore): Promise<void> },
  ) {
    this.#directory = directory;
    this.#openStore = open;
    this.#opened = opened;
  }

  /** Opens the store. A failure is reported to every caller until the store can be opened. */
  open(): Promise<OpenImageStore> {
    if (this.#closed) return Promise.reject(new Error('the runtime has stopped'));
    this.#store ??= this.#open().catch((error: unknown) => {
      this.#store = undefined;
      throw error;
    });
    return this.#store;
  }

  /** Opens the store unless it is new and therefore empty. */
  async openIfAny(): Promise<OpenImageStore | undefined> {
    return this.#store || existsSync(this.#directory) ? this.open() : undefined;
  }

  /** Returns the store if it is open. */
  async opened(): Promise<OpenImageStore | undefined> {
    return this.#store;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const store = await this.#store?.catch(() => undefined); // a store that could not be opened has nothing to close
    await store?.images.close();
  }

  async #open(): Promise<OpenImageStore> {
    const store = await this.#openStore(this.#directory);
    try {
      await this.#opened(store);
      return store;
    } catch (error) {
      await store.images.close();
      throw error;
    }
  }
}
