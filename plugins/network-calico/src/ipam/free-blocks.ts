import { createHash } from 'node:crypto';
import type { Range } from './ip-range.ts';
import { blockName, nameOf, type IPBlock } from './ip-block.ts';
import { blockAt, blocksIn, type Pool } from './pools.ts';

/**
 * Yields the blocks of a pool that do not exist yet. The first block depends on the node's name, so that nodes that start at the same time claim
 * different blocks.
 */
export function* freeBlocks(pool: Pool, present: readonly IPBlock[], node: string): Generator<Range> {
  const existing = new Set(present.map(nameOf));
  const count = blocksIn(pool);
  const start = createHash('sha256').update(node).digest().readBigUInt64BE() % count;
  for (let at = 0n; at < count; at++) {
    const range = blockAt(pool, (start + at) % count);
    if (!existing.has(blockName(range))) yield range;
  }
}
