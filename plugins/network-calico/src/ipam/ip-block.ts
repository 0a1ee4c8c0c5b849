import type { KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { formatAddress, formatRange, parseRange, type Range } from './ip-range.ts';

/**
 * A block of an IP pool, which records which nodes may assign its addresses. Only the node knows which pods have the addresses: after a crash the
 * claims still belong to the node, and a claimed address that no pod holds is not leaked.
 */
export interface IPBlock extends KubeObject {
  readonly spec: {
    readonly cidr: string;
    readonly pool: string;
    /** The node to which routes for the block lead; undefined if no node has an affinity for the block. */
    readonly node?: string;
    /** The ordinals of the addresses that each node may assign, keyed by node. Claims of nodes other than `node` are borrowed addresses. */
    readonly claims?: Readonly<Record<string, readonly number[]>>;
    /** The nodes that request claimed addresses, keyed by ordinal. The node with the claim releases the address when it is free. */
    readonly wanted?: Readonly<Record<string, string>>;
  };
}
export const ipBlocks = resource<IPBlock>('network.oarlock.dev', 'v1', 'ipblocks', 'IPBlock', false);
/** The annotation of nodes whose pod addresses come from blocks. A controller then creates the CustomResourceDefinition of ipblocks. */
export const blocksAnnotation = 'network.oarlock.dev/blocks';

/** Returns the name of a block's object, for example `ip4-10-244-0-64-26`. */
export function blockName({ family, first, bits }: Range): string {
  const text = family === 4 ? formatAddress(4, first).replaceAll('.', '-') : first.toString(16).padStart(32, '0');
  return `ip${family}-${text}-${bits}`;
}
export function newBlock(range: Range, pool: string, more: Partial<IPBlock['spec']> = {}): IPBlock {
  return {
    apiVersion: 'network.oarlock.dev/v1',
    kind: 'IPBlock',
    metadata: { name: blockName(range) },
    spec: { cidr: formatRange(range), pool, ...more },
  };
}
export const rangeOf = ({ spec }: IPBlock): Range => parseRange(spec.cidr);
export const nameOf = ({ metadata }: IPBlock): string => metadata?.name ?? '';
export const claimsOf = ({ spec }: IPBlock, node: string): readonly number[] => spec.claims?.[node] ?? [];
export const addressAt = ({ family, first }: Range, ordinal: number): string => formatAddress(family, first + BigInt(ordinal));

/** The node and the ordinals of the addresses that are claimed. */
export interface BlockClaims {
  readonly node: string;
  readonly ordinals: readonly number[];
  readonly more?: Partial<IPBlock['spec']> | undefined;
}

/** Returns the block with the claims of one node replaced. */
export function withClaims(block: IPBlock, { node, ordinals, more = {} }: BlockClaims): IPBlock {
  const { [node]: _, ...others } = block.spec.claims ?? {};
  const claims = ordinals.length === 0 ? others : { ...others, [node]: [...ordinals].sort((a, b) => a - b) };
  return { ...block, spec: { ...block.spec, claims, ...more } };
}
