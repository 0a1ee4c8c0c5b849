import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenImageStore } from '@oarlock/oci/store/open-image-store';
import { describe, expect, it } from 'vitest';
import { LazyImageStore } from '../../src/images/lazy-image-store.ts';

class Stores {
  opened = 0;
  closed = 0;
  failure: Error | undefined;
  cleanUpFailure: Error | undefined;
  readonly store = { images: { close: async () => void this.closed++ } } as unknown as OpenImageStore;
  readonly callbacks = {
    open: async () => {
      if (this.failure) throw this.failure;
      this.opened++;
      return this.store;
    },
    opened: async () => {
      if (this.cleanUpFailure) throw this.cleanUpFailure;
    },
  };
}

async function inDirectory(run: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'lazy-store-'));
  try {
    await run(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

describe('the image store of the runtime', () => {
  it('is opened once, at the first use', () =>
    inDirectory(async (directory) => {
      const stores = new Stores();
      const lazy = new LazyImageStore(join(directory, 'images'), stores.callbacks);
      expect(await lazy.openIfAny()).toBeUndefined();
      expect(await lazy.opened()).toBeUndefined();
      expect(stores.opened).toBe(0);
      expect(await Promise.all([lazy.open(), lazy.open(), lazy.openIfAny()])).toEqual([stores.store, stores.store, stores.store]);
      expect(stores.opened).toBe(1);
      await lazy.close();
      expect(stores.closed).toBe(1);
      await expect(lazy.open()).rejects.toThrow('the runtime has stopped');
    }));

  it('is opened without a use if it exists', () =>
    inDirectory(async (directory) => {
      const stores = new Stores();
      await mkdir(join(directory, 'images'));
      expect(await new LazyImageStore(join(directory, 'images'), stores.callbacks).openIfAny()).toBe(stores.store);
    }));

  it('is opened again after a failure, and closed if what follows its opening fails', () =>
    inDirectory(async (directory) => {
      const stores = new Stores();
      const lazy = new LazyImageStore(directory, stores.callbacks);
      stores.failure = new Error('the disk is full');
      await expect(lazy.open()).rejects.toThrow('the disk is full');
      stores.failure = undefined;
      stores.cleanUpFailure = new Error('the supervisor does not answer');
      await expect(lazy.open()).rejects.toThrow('the supervisor does not answer');
      expect(stores.closed).toBe(1);
      stores.cleanUpFailure = undefined;
      expect(await lazy.open()).toBe(stores.store);
      await lazy.close();
      expect(stores.closed).toBe(2);
    }));
});
