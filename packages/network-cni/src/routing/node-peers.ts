import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Informer, Informers } from '@oarlock/spi/client';

/** A pod CIDR of another node, and the node address through which the CIDR is reached. */
export interface Peer {
  readonly range: string;
  /** Address of the node, of the same family as the range. */
  readonly address?: string;
  /** The node's VXLAN tunnel endpoint: its IPv4 address. */
  readonly vtep?: string;
}

/** Provides the pod CIDRs of other nodes. */
export interface PeerSource {
  /** True once the first list is complete. */
  readonly synced: boolean;
  /** Calls `changed` after each relevant change and when the first list is complete. Returns a function that removes the callback. */
  onChange(changed: () => void): () => void;
  list(ownName: string): readonly Peer[];
}

/** Returns the addresses at which other nodes reach a node. */
export function nodeAddresses({ status }: Node): readonly string[] {
  return (status?.addresses ?? []).filter(({ type }) => type === 'InternalIP').map(({ address }) => address);
}

/** Returns the peer for a pod CIDR of a node with these addresses. */
export function peerAt(range: string, addresses: readonly string[]): Peer {
  const address = addresses.find((each) => each.includes(':') === range.includes(':'));
  const vtep = addresses.find((each) => !each.includes(':'));
  return { range, ...(address !== undefined && { address }), ...(vtep !== undefined && { vtep }) };
}

/** Returns the pod CIDRs of all nodes except `ownName`, with the addresses through which they are reached. */
export function peersOf(all: readonly Node[], ownName: string): readonly Peer[] {
  return all.flatMap((node) => {
    if (node.metadata?.name === ownName) return [];
    const addresses = nodeAddresses(node);
    return addresses.length === 0 ? [] : (node.spec?.podCIDRs ?? []).map((range) => peerAt(range, addresses));
  });
}

/** A PeerSource that reads `spec.podCIDRs` of Node objects. */
export class NodePeers implements PeerSource {
  readonly #nodes: Informer<Node>;
  constructor(informers: Informers) {
    this.#nodes = informers.forResource(nodes);
  }
  get synced(): boolean {
    return this.#nodes.hasSynced;
  }
  onChange(changed: () => void): () => void {
    const ended = new AbortController();
    void this.#nodes.whenSynced(ended.signal).then(changed, () => undefined); // stopped before
    const off = this.#nodes.addEventHandler({
      onAdd: changed,
      onDelete: changed,
      onUpdate: (node, old) => {
        if (JSON.stringify([node.spec?.podCIDRs, node.status?.addresses]) !== JSON.stringify([old.spec?.podCIDRs, old.status?.addresses]))
          changed();
      },
    });
    return () => {
      ended.abort();
      off();
    };
  }
  list(ownName: string): readonly Peer[] {
    return peersOf(this.#nodes.list(), ownName);
  }
}
