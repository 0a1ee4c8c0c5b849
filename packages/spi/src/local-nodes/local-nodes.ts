import type { Duplex } from 'node:stream';
import { slot } from '@oarlock/kernel/slot';

/** Access to the API of a kubelet in this process, without sockets and TLS. */
export interface LocalKubelet {
  /** The address at which the kubelet also listens and which its Nodes report. For a Node with another address the API server connects there instead. */
  readonly host: string;
  readonly port: number;
  /** Returns a connection that speaks HTTP/1.1 as the listener does. The kubelet treats requests on it as coming from the API server. */
  connect(): Duplex;
}

/**
 * Registry of the kubelets in the process of the API server. Only code in this process can register one; the content of API
 * objects cannot redirect requests to it.
 */
export interface LocalNodes {
  /** Nodes of a kubelet that serves; returns how to take them back. Of two offers of one name the later holds. */
  register(nodeNames: Iterable<string>, kubelet: LocalKubelet): () => void;
  find(nodeName: string): LocalKubelet | undefined;
}
export const LocalNodes = slot.one<LocalNodes>('local-nodes/v1');
