import type { Revision, StorageDriver } from '@oarlock/spi/storage';

/** Number of concurrent commits. */
const concurrency = 128;
/** Number of commits after which the former revisions are deleted, so that the storage does not grow. */
const compactAfter = 20_000;
/** Maximum number of commits: some minutes on etcd. */
export const maxAdvance = 2_000_000;

/**
 * Makes the revision of a storage that assigns its own revisions exceed `revision`, with commits to one key. Returns false, without a commit, if that
 * takes more than `maxAdvance` commits.
 */
export async function advanceBeyond(
  driver: Pick<StorageDriver, 'commit' | 'compact' | 'requestProgress'>,
  revision: Revision,
  key: string,
): Promise<boolean> {
  let current = await driver.requestProgress();
  if (revision - current >= maxAdvance) return false;
  let uncompacted = 0;
  while (current <= revision) {
    const count = Math.min(concurrency, revision - current + 1);
    const value = Buffer.from('{}');
    const results = await Promise.all(Array.from({ length: count }, () => driver.commit([{ key, value }], [])));
    for (const result of results) if (result.ok) current = Math.max(current, result.revision);
    uncompacted += count;
    if (uncompacted < compactAfter) continue;
    await driver.compact(current);
    uncompacted = 0;
  }
  return true;
}
