import type { Change, Entry, Revision } from '@oarlock/spi/storage';
import { deleted, int, type Event, type KeyValue } from './etcd-messages.ts';

const empty = new Uint8Array(0);

/** @param key the key of the entry, as the room has it */
export function entryOf(kv: KeyValue, key: string): Entry {
  return { key, value: kv.value.length > 0 ? kv.value : empty, revision: int(kv.mod_revision), created: int(kv.create_revision) };
}

/** What an event says; undefined when what stood there before belongs to it, but was compacted before etcd looked it up. */
export function changeOf({ type, kv, prev_kv }: Event, key: string, revision: Revision): Change | undefined {
  const previous = prev_kv ? entryOf(prev_kv, key) : undefined;
  if (type === deleted) return previous && { type: 'delete', previous, revision };
  const entry = entryOf(kv, key);
  return previous || entry.created === revision ? { type: 'put', entry, previous } : undefined;
}

export const revisionOf = (change: Change): Revision => (change.type === 'put' ? change.entry.revision : change.revision);

/** What the values of a change hold. */
export const bytesOf = (change: Change): number =>
  (change.type === 'put' ? change.entry.value.length : 0) + (change.previous?.value.length ?? 0);
