import { createHash } from 'node:crypto';
import type { Range } from './ip-range.ts';
import { blockName, nameOf, type IPBlock } from './ip-block.ts';
import { blockAt, blocksIn, type Pool } from './pools.ts';

/** Blocks of a pool that nobody has, beginning at a place of the node's own, so that nodes that start together do not ask for the same. */
export function* freeBlocks(pool: Pool, present: readonly IPBlock[], node: string): Generator<Range> {
  const taken = new Set(present.map(nameOf));
  const count = blocksIn(pool);
  const start = createHash('sha256').update(node).digest().readBigUInt64BE() % count;
  for (let at = 0n; at < count; at++) {
    const range = blockAt(pool, (start + at) % count);
    if (!taken.has(blockName(range))) yield range;
  }
}
