import { describe, it } from 'vitest';
import { StorageHarness, type Suite, type StorageContractOptions, type StorageFixture } from './harness.ts';
import { commitContract } from './commits.ts';
import { compactionContract } from './compaction.ts';
import { raceContract } from './races.ts';
import { rangeContract } from './ranges.ts';
import { restartContract } from './restart.ts';
import { scaleContract } from './scale.ts';
import { ttlContract } from './ttl.ts';
import { watchContract } from './watches.ts';

export type { StorageContractOptions, StorageFixture } from './harness.ts';

/**
 * Declares the tests that every storage driver must pass. Call it once per driver, and once per cache, proxy or decorator of one.
 *
 * It also defines what the documentation of `StorageDriver` leaves open:
 *
 * - a write without `ttlSeconds` removes the key's time to live;
 * - `limit: 0` returns no entries, and `remaining` counts them all;
 * - a commit accepts at least 100 writes; the order of changes within one revision is undefined;
 * - a key, prefix or `after` with an unpaired surrogate is a TypeError, and so is a duplicate key among the writes of a commit;
 * - `compact` of a compacted revision does nothing; `compact` of a future revision throws `FutureRevision`.
 */
export function storageContract(
  name: string,
  open: () => Promise<StorageFixture>,
  { runs = 25, unavailable }: StorageContractOptions = {},
): void {
  describe(`storage/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    if (unavailable !== undefined) {
      it('runs on this machine', (context) => {
        context.skip(unavailable);
      });
      return;
    }
    const testUnless: Suite['testUnless'] = (unsupportedReason, title, body) => {
      it(title, async (context) => {
        const harness = new StorageHarness(await open(), runs);
        try {
          const reason = unsupportedReason(harness.fixture);
          if (reason !== undefined) context.skip(reason);
          await body(harness);
        } finally {
          await harness.close();
        }
      });
    };
    const suite: Suite = { test: (title, body) => testUnless(() => undefined, title, body), testUnless };
    describe('commits', () => commitContract(suite));
    describe('races', () => raceContract(suite));
    describe('ranges', () => rangeContract(suite));
    describe('watches', () => watchContract(suite));
    describe('compaction', () => compactionContract(suite));
    describe('time to live', () => ttlContract(suite));
    describe('many keys', () => scaleContract(suite));
    describe('restart', () => restartContract(suite));
  });
}
