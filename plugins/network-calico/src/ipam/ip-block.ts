import type { KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { formatAddress, formatRange, parseRange, type Range } from './ip-range.ts';

/**
 * A block of a pool: which node may assign which of its addresses. The assignment to pods is known only to the node, so that after a crash
 * the claims are still the node's, and a claimed address that no pod holds is not leaked.
 */
export interface IPBlock extends KubeObject {
  readonly spec: {
    readonly cidr: string;
    readonly pool: string;
    /** The node to which routes lead. Absent: no node has an affinity for the block. */
    readonly node?: string;
    /** Ordinals of addresses, by the node that may assign them. Those of nodes other than `node` are borrowed. */
    readonly claims?: Readonly<Record<string, readonly number[]>>;
    /** The nodes that request a claimed address, by ordinal: the claiming node releases the address when it is free. */
    readonly wanted?: Readonly<Record<string, string>>;
  };
}
export const ipBlocks = resource<IPBlock>('network.oarlock.dev', 'v1', 'ipblocks', 'IPBlock', false);
/** Annotation of nodes whose addresses come from blocks. It makes the controllers create the ipblocks CRD. */
export const blocksAnnotation = 'network.oarlock.dev/blocks';

/** `ip4-10-244-0-64-26` */
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

/** Returns the block with the claims of one node replaced. */
export function withClaims(block: IPBlock, node: string, ordinals: readonly number[], more: Partial<IPBlock['spec']> = {}): IPBlock {
  const { [node]: _, ...others } = block.spec.claims ?? {};
  const claims = ordinals.length === 0 ? others : { ...others, [node]: [...ordinals].sort((a, b) => a - b) };
  return { ...block, spec: { ...block.spec, claims, ...more } };
}
