import { expect, it } from 'vitest';
import { SourceShares } from '../../src/concurrency/source-shares.ts';

/** Takes places for a source until it has its share, and returns their number. */
function takeAll(shares: SourceShares, source: string): number {
  let count = 0;
  while (shares.take(source)) count += 1;
  return count;
}

it('gives one source half of the places', () => {
  expect(takeAll(new SourceShares(100), 'a')).toBe(50);
});

it('leaves places for another source, however many sources have their shares', () => {
  const shares = new SourceShares(1000);
  for (let round = 0; round < 10; round += 1) for (const source of ['a', 'b', 'c', 'd']) takeAll(shares, source);
  expect(takeAll(shares, 'e')).toBeGreaterThan(0);
});

it('divides the places evenly between sources that take turns', () => {
  const shares = new SourceShares(1000);
  const counts = new Map(['a', 'b', 'c', 'd'].map((source) => [source, 0]));
  for (let turn = 0; turn < 1000; turn += 1) for (const [source, count] of counts) if (shares.take(source)) counts.set(source, count + 1);
  expect([...counts.values()]).toEqual([200, 200, 200, 200]);
});

it('takes places back once each', () => {
  const shares = new SourceShares(4);
  expect(takeAll(shares, 'a')).toBe(2);
  for (let extra = 0; extra < 5; extra += 1) shares.release('a');
  shares.release('unknown');
  expect(takeAll(shares, 'a')).toBe(2);
});
