import type { Duplex } from 'node:stream';
import { slot } from '@oarlock/kernel/slot';

/** The way into the API of a kubelet of this process, without sockets and TLS. */
export interface KubeletDoor {
  /** Where the same kubelet listens, as its Nodes say. A Node that says otherwise is reached there. */
  readonly host: string;
  readonly port: number;
  /** A connection on which HTTP/1.1 is spoken as on the listener. Whoever holds the door is taken for the API server. */
  connect(): Duplex;
}

/**
 * Where a kubelet makes itself known to the API server of its process. Whose door it is is settled by who offers it, in this process; nothing
 * that can be written into an object leads to it.
 */
export interface LocalNodes {
  /** Nodes of a kubelet that serves; returns how to take them back. Of two offers of one name the later holds. */
  offer(nodeNames: Iterable<string>, door: KubeletDoor): () => void;
  find(nodeName: string): KubeletDoor | undefined;
}
export const LocalNodes = slot.one<LocalNodes>('local-nodes/v1');
