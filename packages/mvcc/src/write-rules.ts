import { StorageError, type Commit, type Entry, type Expectation, type Write } from '@oarlock/spi/storage';
import { sortKey } from './sort-key.ts';

/**
 * What a commit may not ask for, whatever stands in the store.
 * @throws StorageError `TooLarge`; TypeError for what a caller should not have passed
 */
export function checkWrites(writes: readonly Write[], maxValueBytes: number): void {
  for (const { key, value, ttlSeconds } of writes) {
    sortKey(key);
    if (value !== null && value.length > maxValueBytes) {
      throw new StorageError(
        'TooLarge',
        `the value of ${JSON.stringify(key)} has ${value.length} bytes, at most ${maxValueBytes} are taken`,
      );
    }
    if (ttlSeconds !== undefined && (!Number.isInteger(ttlSeconds) || ttlSeconds < 1))
      throw new TypeError(`not a time to live in whole seconds: ${ttlSeconds}`);
  }
  if (writes.length > 1 && new Set(writes.map((write) => write.key)).size < writes.length)
    throw new TypeError('a commit writes a key twice');
}

/** The first expectation that does not hold, as the answer to the commit; undefined when all do. */
export function refusal(
  expect: readonly Expectation[],
  standing: (key: string) => Entry | undefined,
): Extract<Commit, { readonly ok: false }> | undefined {
  for (const { key, revision } of expect) {
    const current = standing(key);
    if ((current?.revision ?? 0) !== revision) return { ok: false, key, current };
  }
  return undefined;
}
