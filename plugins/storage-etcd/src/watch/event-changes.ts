import type { Change, Entry, Revision } from '@oarlock/spi/storage';
import { deleted, int, type Event, type KeyValue } from '../rpc/etcd-messages.ts';

const empty = new Uint8Array(0);

/** Converts an etcd entry. `key` is its key without the root. */
export function entryOf(kv: KeyValue, key: string): Entry {
  return { key, value: kv.value.length > 0 ? kv.value : empty, revision: int(kv.mod_revision), created: int(kv.create_revision) };
}

/** Converts an event. Returns undefined if its previous value was compacted before etcd read it. */
export function changeOf({ type, kv, prev_kv }: Event, key: string, revision: Revision): Change | undefined {
  const previous = prev_kv ? entryOf(prev_kv, key) : undefined;
  if (type === deleted) return previous && { type: 'delete', previous, revision };
  const entry = entryOf(kv, key);
  return previous || entry.created === revision ? { type: 'put', entry, previous } : undefined;
}

export const revisionOf = (change: Change): Revision => (change.type === 'put' ? change.entry.revision : change.revision);

/** Returns the size of a change's values in bytes. */
export const bytesOf = (change: Change): number =>
  (change.type === 'put' ? change.entry.value.length : 0) + (change.previous?.value.length ?? 0);
