import type { Duplex } from 'node:stream';
import { slot } from '@oarlock/kernel/slot';

/** Access to the API of a kubelet in this process, without sockets and TLS. */
export interface LocalKubelet {
  /**
   * The address on which the kubelet also listens and which its Nodes report. For a Node with another address, the API server connects to that
   * address instead.
   */
  readonly host: string;
  readonly port: number;
  /**
   * Returns a connection that serves HTTP/1.1 as the kubelet's listener does. The kubelet treats requests on this connection as requests of the API
   * server.
   */
  connect(): Duplex;
}

/**
 * Registry of the kubelets in the process of the API server. Only code in this process can register one; the content of API
 * objects cannot redirect requests to it.
 */
export interface LocalNodes {
  /**
   * Registers the Nodes that a kubelet serves. Returns a function that removes the registration. If a Node is registered twice, the later
   * registration applies.
   */
  register(nodeNames: Iterable<string>, kubelet: LocalKubelet): () => void;
  find(nodeName: string): LocalKubelet | undefined;
}
export const LocalNodes = slot.one<LocalNodes>('local-nodes/v1');
