import type { X509Certificate } from 'node:crypto';
import type { ClientClass } from './client-class.ts';

/** The properties of a connection that all its requests share. */
export interface ClientConnection {
  readonly remoteAddress: string | undefined;
  /** The remote address, without the prefix of IPv4 addresses that a socket for IPv6 accepts. */
  readonly sourceAddress: string | undefined;
  /** A weak key for what authenticators cache by connection. */
  readonly cacheKey: object;
  /** The highest class of a request on this connection so far. */
  readonly clientClass: ClientClass;
  /** Returns the client certificate if the cluster CA issued it and it is currently valid; otherwise undefined. */
  certificate(): X509Certificate | undefined;
  /** Returns the client certificate if the front-proxy CA issued it and it is currently valid; otherwise undefined. */
  frontProxyCertificate(): X509Certificate | undefined;
  /** Raises the class of the connection after a request has been authenticated. Has no effect if the current class is higher. */
  raiseClass(clientClass: ClientClass): void;
}
