import { describe, it } from 'vitest';
import { Bench, type StorageContractOptions, type StorageFixture } from './storage.contract.bench.ts';
import { commitContract } from './storage.contract.commits.ts';
import { compactionContract } from './storage.contract.compaction.ts';
import { raceContract } from './storage.contract.races.ts';
import { rangeContract } from './storage.contract.ranges.ts';
import { restartContract } from './storage.contract.restart.ts';
import { scaleContract } from './storage.contract.scale.ts';
import { ttlContract } from './storage.contract.ttl.ts';
import { watchContract } from './storage.contract.watches.ts';

export type { StorageContractOptions, StorageFixture } from './storage.contract.bench.ts';

/** How a part of the suite declares its tests. Each gets a fixture of its own. */
export interface Suite {
  test(title: string, body: (bench: Bench) => Promise<void>): void;
  /** A test of something that a fixture may lack: `lacking` returns the reason then, and the test is a visible skip. */
  testUnless(lacking: (fixture: StorageFixture) => string | undefined, title: string, body: (bench: Bench) => Promise<void>): void;
}

/**
 * What every storage driver promises. Call it once per driver, and once per cache, proxy or decorator of one.
 * Besides the words of `StorageDriver` it settles what they leave open:
 *  - a write without `ttlSeconds` keeps its key for good, whatever time the key had left;
 *  - `limit: 0` reads no entries and counts them all;
 *  - one commit takes at least 100 writes; the order of changes within one revision is open;
 *  - a key, prefix or `after` with half of a surrogate pair is a TypeError, and so is one key twice among the writes of a commit;
 *  - `compact` of what is compacted already does nothing, of the future is refused with `FutureRevision`.
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
    const testUnless: Suite['testUnless'] = (lacking, title, body) => {
      it(title, async (context) => {
        const bench = new Bench(await open(), runs);
        try {
          const reason = lacking(bench.fixture);
          if (reason !== undefined) context.skip(reason);
          await body(bench);
        } finally {
          await bench.close();
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
