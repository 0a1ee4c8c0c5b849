import type { X509Certificate } from 'node:crypto';
import type { ClientClass } from './client-class.ts';

/** The properties that all requests of one connection share. */
export interface ClientConnection {
  readonly remoteAddress: string | undefined;
  /** The highest class of the requests on this connection so far. */
  readonly clientClass: ClientClass;
  /** Returns the client certificate if the cluster CA issued it, while it is valid. */
  certificate(): X509Certificate | undefined;
  /** Returns the client certificate if the front-proxy CA issued it, while it is valid. */
  frontProxyCertificate(): X509Certificate | undefined;
  /** Raises the class of the connection after a request has been authenticated. A lower class has no effect. */
  raiseClass(clientClass: ClientClass): void;
}
