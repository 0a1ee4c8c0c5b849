import { sizeOf } from './ip-range.ts';
import { claimsOf, rangeOf, withClaims, type IPBlock } from './ip-block.ts';

/** The first ordinal for pods. Ordinal 0 is reserved for the node's tunnel address. */
const firstForPods = 1;

/**
 * Returns the number of addresses that a node claims at once: enough that most ADDs do not need the API server, and few enough to leave addresses to
 * other nodes.
 */
export function claimSize(block: IPBlock): number {
  return Math.max(1, Math.min(16, Number(sizeOf(rangeOf(block))) >> 2));
}

/** Returns the ordinals that no node has claimed, in ascending order. */
export function unclaimed(block: IPBlock): readonly number[] {
  const claimed = new Set(Object.values(block.spec.claims ?? {}).flat());
  const size = Number(sizeOf(rangeOf(block)));
  return Array.from({ length: size - firstForPods }, (_, at) => at + firstForPods).filter((ordinal) => !claimed.has(ordinal));
}

/** Returns the block with up to `count` more claims of the node; undefined if all addresses are claimed. */
export function addClaims(block: IPBlock, node: string, count: number): IPBlock | undefined {
  const more = unclaimed(block).slice(0, count);
  return more.length === 0 ? undefined : withClaims(block, { node, ordinals: [...claimsOf(block, node), ...more] });
}

/** Returns the block without the given claims of the node; undefined if no node uses the block any more. */
export function releaseClaims(block: IPBlock, node: string, ordinals: ReadonlySet<number>): IPBlock | undefined {
  const wanted = Object.fromEntries(Object.entries(block.spec.wanted ?? {}).filter(([ordinal]) => !ordinals.has(Number(ordinal))));
  const left = withClaims(block, { node, ordinals: claimsOf(block, node).filter((ordinal) => !ordinals.has(ordinal)), more: { wanted } });
  return left.spec.node === undefined && Object.keys(left.spec.claims ?? {}).length === 0 ? undefined : left;
}

/** Returns the block without the claims of deleted nodes. */
export function withoutGoneNodes(block: IPBlock, isGone: (name: string) => boolean): IPBlock {
  const claims = Object.fromEntries(Object.entries(block.spec.claims ?? {}).filter(([name]) => !isGone(name)));
  return { ...block, spec: { ...block.spec, claims } };
}
/** Returns the block with `node` as its owner. The claims of other existing nodes are kept. */
export function transferBlock(block: IPBlock, node: string, isGone: (name: string) => boolean): IPBlock {
  const left = withoutGoneNodes(block, isGone);
  return { ...left, spec: { ...left.spec, node } };
}

/** Returns the block without an owner and without claims of `node`; undefined if no node uses the block any more. */
export function releaseBlock(block: IPBlock, node: string): IPBlock | undefined {
  const { node: _, ...spec } = block.spec;
  return releaseClaims({ ...block, spec }, node, new Set(claimsOf(block, node)));
}
