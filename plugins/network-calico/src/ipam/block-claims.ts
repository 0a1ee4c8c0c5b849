import { sizeOf } from './ip-range.ts';
import { claimsOf, rangeOf, withClaims, type IPBlock } from './ip-block.ts';

/** Number 0 is the node's own: tunnels begin there. */
const firstForPods = 1;

/** Claimed at once, so that most pods get an address without a word to the API server, and enough is left to borrow. */
export function claimSize(block: IPBlock): number {
  return Math.max(1, Math.min(16, Number(sizeOf(rangeOf(block))) >> 2));
}

/** Numbers that no node may give out, ascending. */
export function unclaimed(block: IPBlock): readonly number[] {
  const taken = new Set(Object.values(block.spec.claims ?? {}).flat());
  const size = Number(sizeOf(rangeOf(block)));
  return Array.from({ length: size - firstForPods }, (_, at) => at + firstForPods).filter((ordinal) => !taken.has(ordinal));
}

/** The block with up to `count` more claims of a node; undefined when there are none to be had. */
export function addClaims(block: IPBlock, node: string, count: number): IPBlock | undefined {
  const more = unclaimed(block).slice(0, count);
  return more.length === 0 ? undefined : withClaims(block, node, [...claimsOf(block, node), ...more]);
}

/** The block without what a node does not need. Undefined: nobody needs any of it. */
export function releaseClaims(block: IPBlock, node: string, ordinals: ReadonlySet<number>): IPBlock | undefined {
  const wanted = Object.fromEntries(Object.entries(block.spec.wanted ?? {}).filter(([ordinal]) => !ordinals.has(Number(ordinal))));
  const left = withClaims(
    block,
    node,
    claimsOf(block, node).filter((ordinal) => !ordinals.has(ordinal)),
    { wanted },
  );
  return left.spec.node === undefined && Object.keys(left.spec.claims ?? {}).length === 0 ? undefined : left;
}

/** The block without claims of nodes that left. */
export function withoutGoneNodes(block: IPBlock, isGone: (name: string) => boolean): IPBlock {
  const claims = Object.fromEntries(Object.entries(block.spec.claims ?? {}).filter(([name]) => !isGone(name)));
  return { ...block, spec: { ...block.spec, claims } };
}
/** The block as another node's. Claims of nodes that are still there hold. */
export function transferBlock(block: IPBlock, node: string, isGone: (name: string) => boolean): IPBlock {
  const left = withoutGoneNodes(block, isGone);
  return { ...left, spec: { ...left.spec, node } };
}

/** The block belongs to no node any more, and the node gives out none of it. */
export function releaseBlock(block: IPBlock, node: string): IPBlock | undefined {
  const { node: _, ...spec } = block.spec;
  return releaseClaims({ ...block, spec }, node, new Set(claimsOf(block, node)));
}
