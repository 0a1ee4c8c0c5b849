import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { nodeAddresses, peerAt, type Peer, type PeerSource } from '@oarlock/network-cni/routing/node-peers';
import type { Informer, Informers } from '@oarlock/spi/client';
import { addressAt, ipBlocks, rangeOf, type IPBlock } from '../ipam/ip-block.ts';

/**
 * Returns the other nodes with the pod CIDRs that the blocks assign to them: a block belongs to its node, a borrowed address to the node that claims
 * it.
 */
export function peersOf(blocks: readonly IPBlock[], all: readonly Node[], ownName: string): readonly Peer[] {
  const addresses = new Map(all.map((node) => [node.metadata?.name ?? '', nodeAddresses(node)]));
  return blocks.flatMap((block) => {
    const range = rangeOf(block);
    const holders = Object.entries(block.spec.claims ?? {}).filter(([name]) => name !== block.spec.node);
    const parts = [
      { node: block.spec.node, ranges: [block.spec.cidr] },
      ...holders.map(([node, ordinals]) => ({
        node,
        ranges: ordinals.map((ordinal) => `${addressAt(range, ordinal)}/${range.family === 4 ? 32 : 128}`),
      })),
    ];
    return parts.flatMap(({ node, ranges }) => {
      const at = node === undefined || node === ownName ? undefined : addresses.get(node);
      return at === undefined || at.length === 0 ? [] : ranges.map((each) => peerAt(each, at));
    });
  });
}

/** Returns the part of a block that affects the routes of other nodes: all but the claims of the block's own node. */
const placesOf = ({ spec }: IPBlock) =>
  JSON.stringify([spec.node, Object.entries(spec.claims ?? {}).filter(([name]) => name !== spec.node)]);

/** Reports the other nodes and their pod CIDRs according to the blocks in the API. */
export class BlockPeers implements PeerSource {
  readonly #blocks: Informer<IPBlock>;
  readonly #nodes: Informer<Node>;
  constructor(informers: Informers) {
    this.#blocks = informers.forResource(ipBlocks);
    this.#nodes = informers.forResource(nodes);
  }
  get synced(): boolean {
    return this.#blocks.hasSynced && this.#nodes.hasSynced;
  }
  onChange(changed: () => void): () => void {
    const ended = new AbortController();
    void Promise.all([this.#blocks.whenSynced(ended.signal), this.#nodes.whenSynced(ended.signal)]).then(changed, () => undefined); // stopped before the informers synced
    const offs = [
      this.#blocks.addEventHandler({
        onAdd: changed,
        onDelete: changed,
        onUpdate: (block, old) => void (placesOf(block) !== placesOf(old) && changed()),
      }),
      this.#nodes.addEventHandler({
        onAdd: changed,
        onDelete: changed,
        onUpdate: (node, old) => void (JSON.stringify(nodeAddresses(node)) !== JSON.stringify(nodeAddresses(old)) && changed()),
      }),
    ];
    return () => {
      ended.abort();
      for (const off of offs) off();
    };
  }
  list(ownName: string): readonly Peer[] {
    return peersOf(this.#blocks.list(), this.#nodes.list(), ownName);
  }
}
