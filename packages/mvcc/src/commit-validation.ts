import { StorageError, type CommitResult, type Entry, type Precondition, type Write } from '@oarlock/spi/storage';
import { sortKey } from './internal/sort-key.ts';

/**
 * Validates the writes of a commit, independently of the content of the store.
 * @throws StorageError `TooLarge` if a value exceeds `maxValueBytes`; TypeError if a write has an invalid argument
 */
export function validateWrites(writes: readonly Write[], maxValueBytes: number): void {
  for (const { key, value, ttlSeconds } of writes) {
    sortKey(key);
    if (value !== null && value.length > maxValueBytes) {
      throw new StorageError('TooLarge', `the value of ${JSON.stringify(key)} has ${value.length} bytes; the limit is ${maxValueBytes}`);
    }
    if (ttlSeconds !== undefined && (!Number.isInteger(ttlSeconds) || ttlSeconds < 1))
      throw new TypeError(`ttlSeconds must be a positive integer: ${ttlSeconds}`);
  }
  if (writes.length > 1 && new Set(writes.map((write) => write.key)).size < writes.length)
    throw new TypeError('a commit contains two writes of one key');
}

/** Returns the result of a commit with a failed precondition: the first that does not hold. Returns undefined if all preconditions hold. */
export function failedPrecondition(
  expect: readonly Precondition[],
  currentEntry: (key: string) => Entry | undefined,
): Extract<CommitResult, { readonly ok: false }> | undefined {
  for (const { key, revision } of expect) {
    const current = currentEntry(key);
    if ((current?.revision ?? 0) !== revision) return { ok: false, key, current };
  }
  return undefined;
}
