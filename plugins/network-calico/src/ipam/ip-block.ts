import type { KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { formatAddress, formatRange, parseRange, type Range } from './ip-range.ts';

/**
 * A part of a pool, and which node may give out which of its addresses. Who of them holds one is the node's own knowledge: what a crash
 * cuts off is the node's again, and an address that a node holds in vain is lost to nobody.
 */
export interface IPBlock extends KubeObject {
  readonly spec: {
    readonly cidr: string;
    readonly pool: string;
    /** Routes to the block lead there. Absent: the block waits for a node. */
    readonly node?: string;
    /** Numbers of addresses within the block, by the node that may give them out: of another than `node`, they are borrowed. */
    readonly claims?: Readonly<Record<string, readonly number[]>>;
    /** Numbers of claimed addresses that another node asks for: the holder lets go of them when they are free. */
    readonly wanted?: Readonly<Record<string, string>>;
  };
}
export const ipBlocks = resource<IPBlock>('network.oarlock.dev', 'v1', 'ipblocks', 'IPBlock', false);
/** On a node whose addresses come from blocks: makes the controllers see to the kind. */
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

/** The same block with other claims of one node. */
export function withClaims(block: IPBlock, node: string, ordinals: readonly number[], more: Partial<IPBlock['spec']> = {}): IPBlock {
  const { [node]: _, ...others } = block.spec.claims ?? {};
  const claims = ordinals.length === 0 ? others : { ...others, [node]: [...ordinals].sort((a, b) => a - b) };
  return { ...block, spec: { ...block.spec, claims, ...more } };
}
