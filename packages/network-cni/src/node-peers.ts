import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Informer, Informers } from '@oarlock/spi/client';

/** A range of pods of another node, and by which of its addresses we reach it. */
export interface Peer {
  readonly range: string;
  /** Of the node, in the family of the range. */
  readonly address?: string;
  /** Where the node's VXLAN ends: its IPv4 address. */
  readonly vtep?: string;
}

/** Who says which pods are where. */
export interface PeerSource {
  /** The first list is complete. */
  readonly known: boolean;
  /** Calls back after each change that matters, and when the first list is complete. */
  on(changed: () => void): () => void;
  list(ownName: string): readonly Peer[];
}

/** The addresses by which other nodes reach a node. */
export function nodeAddresses({ status }: Node): readonly string[] {
  return (status?.addresses ?? []).filter(({ type }) => type === 'InternalIP').map(({ address }) => address);
}

/** A range of pods behind these addresses of a node. */
export function peerAt(range: string, addresses: readonly string[]): Peer {
  const address = addresses.find((each) => each.includes(':') === range.includes(':'));
  const vtep = addresses.find((each) => !each.includes(':'));
  return { range, ...(address !== undefined && { address }), ...(vtep !== undefined && { vtep }) };
}

/** Other nodes' ranges of pods, each by addresses of the node. */
export function peersOf(all: readonly Node[], ownName: string): readonly Peer[] {
  return all.flatMap((node) => {
    if (node.metadata?.name === ownName) return [];
    const addresses = nodeAddresses(node);
    return addresses.length === 0 ? [] : (node.spec?.podCIDRs ?? []).map((range) => peerAt(range, addresses));
  });
}

/** Pods are where the `spec.podCIDRs` of the nodes say. */
export class NodePeers implements PeerSource {
  readonly #nodes: Informer<Node>;
  constructor(informers: Informers) {
    this.#nodes = informers.of(nodes);
  }
  get known(): boolean {
    return this.#nodes.synced;
  }
  on(changed: () => void): () => void {
    const ended = new AbortController();
    void this.#nodes.whenSynced(ended.signal).then(changed, () => undefined); // stopped before
    const off = this.#nodes.on({
      added: changed,
      deleted: changed,
      updated: (node, old) => {
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
