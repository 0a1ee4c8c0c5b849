import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '@oarlock/primitives/clock';
import type { StorageDriver } from '@oarlock/spi/storage';
import { ObjectIndex } from '../resource-cache.ts';
import { storageRoot } from '../../storage/storage-root.ts';
import { UnreadableObject } from '../unreadable-object.ts';
import { rangePages } from './range-pages.ts';
import type { ResourceCaches } from './resource-caches.ts';

/** The duration of synchronous work after which the load yields to the event loop, in milliseconds. */
const sliceMs = 5;

export interface LoadOptions {
  readonly storage: StorageDriver;
  readonly caches: ResourceCaches;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface LoadedObjects {
  /** The loaded objects by resource name. */
  readonly staged: ReadonlyMap<string, ObjectIndex>;
  /** The storage keys under the root that belong to no known resource. */
  readonly unownedKeys: readonly string[];
  readonly revision: number;
}

/** Reads all objects at one revision into new indexes. @throws StorageError if storage fails; the signal's reason if it aborts */
export async function loadObjects({ storage, caches, clock, signal }: LoadOptions, atRevision: number | undefined): Promise<LoadedObjects> {
  const staged = new Map([...caches.values()].map(({ resource }) => [resource.name, new ObjectIndex(resource)]));
  const unownedKeys: string[] = [];
  let revision = atRevision;
  let began = clock.monotonic();
  for await (const page of rangePages(storage, storageRoot, revision)) {
    signal.throwIfAborted();
    revision ??= page.revision;
    for (const entry of page.entries) {
      const { cache, name } = caches.locate(entry.key);
      if (cache === undefined) unownedKeys.push(entry.key);
      else {
        const decoded = caches.decode(cache, name, entry);
        const index = staged.get(cache.resource.name);
        if (decoded instanceof UnreadableObject) index?.unreadable.set(name, decoded);
        else index?.set(name, undefined, decoded);
      }
      if (clock.monotonic() - began > sliceMs) {
        await turn();
        began = clock.monotonic();
      }
    }
  }
  return { staged, unownedKeys, revision: revision ?? 0 };
}
