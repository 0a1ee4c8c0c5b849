import type { Socket } from 'node:net';
import { parseIPNumber } from '@oarlock/api/net/ip-number';
import type { Clock } from '@oarlock/primitives/clock';
import type { ClientClass } from '../client-class.ts';
import type { ConnectionLimits } from '../connection-limits.ts';
import type { CloseReason } from '../connection-metrics.ts';
import { Connection } from './connection.ts';

export interface ConnectionTableOptions {
  readonly limits: ConnectionLimits;
  readonly clock: Clock;
  onClose(reason: CloseReason): void;
}

type SocketAddresses = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress'>;
/** The connections of one source, oldest first. Connections of class `system` are not included, because they are not limited by source. */
interface Source {
  readonly unauthenticated: Set<Connection>;
  readonly authenticated: Set<Connection>;
  /** Those of the unauthenticated connections whose TLS handshake has not ended. */
  readonly handshakes: Set<Connection>;
}

const maxCheckIntervalMs = 1_000;

/**
 * All TCP connections of a server. The table limits their number, in total and by source, and checks their deadlines periodically.
 *
 * If the total limit is reached, a connection is closed to accept a new one: in the lowest class, of the source with the most connections in that
 * class, the oldest connection without a request. An authenticated client thus keeps its connection while other clients only connect. If the limit of
 * handshakes is reached, the source with the most handshakes loses its oldest one.
 */
export class ConnectionTable {
  readonly #options: ConnectionTableOptions;
  readonly #connections = new Map<string, Connection>();
  readonly #sources = new Map<string, Source>();
  readonly #counts: Record<ClientClass, number> = { unauthenticated: 0, authenticated: 0, system: 0 };
  #handshakes = 0;
  readonly #checkIntervalMs: number;
  #isCheckScheduled = false;

  constructor(options: ConnectionTableOptions) {
    this.#options = options;
    this.#checkIntervalMs = checkInterval(options.limits);
  }

  /** Returns the number of connections of a class. */
  count(clientClass: ClientClass): number {
    return this.#counts[clientClass];
  }

  [Symbol.iterator](): IterableIterator<Connection> {
    return this.#connections.values();
  }

  /** Adds a new connection, which is removed when its socket closes. If the server has no capacity, destroys the socket and returns undefined. */
  add(socket: Socket): Connection | undefined {
    const { limits, clock, onClose } = this.#options;
    const { remoteAddress } = socket;
    // a connection that the client has already reset has no address
    if (remoteAddress === undefined || !this.#makeCapacity(remoteAddress)) {
      socket.destroy();
      return undefined;
    }
    const source = sourceOf(remoteAddress);
    const key = keyOf(socket);
    const connection = new Connection({
      socket,
      key,
      source,
      limits,
      clock,
      onClose,
      onRaiseClass: (raised, clientClass) => this.#move(raised, clientClass),
    });
    this.#connections.set(key, connection);
    this.#list(connection, 'unauthenticated');
    this.#sources.get(source)?.handshakes.add(connection);
    this.#handshakes += 1;
    socket.once('close', () => this.#remove(connection));
    this.#scheduleCheck();
    return connection;
  }

  /** Removes a connection from the handshakes in progress. */
  endHandshake(connection: Connection): void {
    if (this.#sources.get(connection.source)?.handshakes.delete(connection) === true) this.#handshakes -= 1;
  }

  /** Returns the connection of a TCP socket, a TLS socket, or a wrapper of either; undefined if the table does not contain it. */
  find(socket: SocketAddresses): Connection | undefined {
    return this.#connections.get(keyOf(socket));
  }

  #makeCapacity(remoteAddress: string): boolean {
    const { maxConnections, maxUnauthenticatedPerSource, maxHandshakes } = this.#options.limits;
    const sameSource = this.#sources.get(sourceOf(remoteAddress))?.unauthenticated;
    if (sameSource !== undefined && sameSource.size >= maxUnauthenticatedPerSource) this.#evict(oldest(sameSource), 'source-limit');
    if (this.#handshakes >= maxHandshakes) this.#evict(oldest(this.#largest('handshakes')), 'handshake-limit');
    if (this.#connections.size < maxConnections) return true;
    const victim = this.#selectVictim();
    if (victim === undefined) {
      this.#options.onClose('total-limit');
      return false;
    }
    this.#evict(victim, 'total-limit');
    return true;
  }

  #selectVictim(): Connection | undefined {
    const { maxConnections, reservedConnections } = this.#options.limits;
    if (this.#counts.unauthenticated > 0) return oldest(this.#largest('unauthenticated'));
    return this.#counts.authenticated > maxConnections - reservedConnections ? oldest(this.#largest('authenticated')) : undefined;
  }

  #largest(clientClass: keyof Source): ReadonlySet<Connection> {
    let largest: ReadonlySet<Connection> = new Set();
    for (const source of this.#sources.values()) if (source[clientClass].size > largest.size) largest = source[clientClass];
    return largest;
  }

  #evict(connection: Connection | undefined, reason: CloseReason): void {
    if (connection === undefined) return;
    this.#remove(connection);
    connection.closeFor(reason);
  }

  #remove(connection: Connection): void {
    if (this.#connections.get(connection.key) !== connection) return;
    this.#connections.delete(connection.key);
    this.endHandshake(connection);
    this.#unlist(connection);
  }

  #move(connection: Connection, clientClass: ClientClass): void {
    // the connection may have been evicted while its request was authenticated
    if (this.#connections.get(connection.key) !== connection) return;
    this.#unlist(connection);
    this.#list(connection, clientClass);
  }

  #list(connection: Connection, clientClass: ClientClass): void {
    this.#counts[clientClass] += 1;
    if (clientClass === 'system') return;
    let source = this.#sources.get(connection.source);
    if (source === undefined)
      this.#sources.set(connection.source, (source = { unauthenticated: new Set(), authenticated: new Set(), handshakes: new Set() }));
    source[clientClass].add(connection);
  }

  #unlist(connection: Connection): void {
    const { clientClass } = connection;
    this.#counts[clientClass] -= 1;
    if (clientClass === 'system') return;
    const source = this.#sources.get(connection.source);
    source?.[clientClass].delete(connection);
    if (source?.unauthenticated.size === 0 && source.authenticated.size === 0) this.#sources.delete(connection.source);
  }

  #scheduleCheck(): void {
    if (this.#isCheckScheduled || this.#connections.size === 0) return;
    this.#isCheckScheduled = true;
    this.#options.clock.after(this.#checkIntervalMs, () => {
      this.#isCheckScheduled = false;
      const now = this.#options.clock.monotonic();
      for (const connection of this.#connections.values()) connection.check(now);
      this.#scheduleCheck();
    });
  }
}

/** Returns the oldest connection without a request; the oldest connection if all have requests. */
function oldest(connections: ReadonlySet<Connection>): Connection | undefined {
  let first: Connection | undefined;
  for (const connection of connections) {
    if (!connection.isBusy) return connection;
    first ??= connection;
  }
  return first;
}

/** Returns the key of a connection: its addresses, which are unique because `remotePort` is unique for a remote address and the local address. */
const keyOf = ({ remoteAddress, remotePort, localAddress }: SocketAddresses): string => `${remoteAddress} ${remotePort} ${localAddress}`;

/** Returns the source of a connection: the IPv4 address, or the /64 network of an IPv6 address, because one host commonly has a whole /64. */
export function sourceOf(remoteAddress: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remoteAddress)?.[1];
  if (mapped !== undefined) return mapped;
  if (!remoteAddress.includes(':')) return remoteAddress;
  const number = parseIPNumber(remoteAddress.split('%', 1)[0] as string);
  return number === undefined ? remoteAddress : `${(number >> 64n).toString(16)}/64`;
}

/** Returns the interval of the deadline checks: an eighth of the shortest deadline, so that deadlines are exceeded only slightly, but at most 1 s. */
function checkInterval(limits: ConnectionLimits): number {
  const { handshakeTimeoutMs, prefaceTimeoutMs, headerTimeoutMs, bodyTimeoutMs, idleTimeoutMs } = limits;
  const { responseTimeoutMs, stalledStreamTimeoutMs, closeTimeoutMs } = limits;
  const shortest = Math.min(
    ...[handshakeTimeoutMs, prefaceTimeoutMs, headerTimeoutMs, bodyTimeoutMs, idleTimeoutMs],
    ...[responseTimeoutMs, stalledStreamTimeoutMs, closeTimeoutMs * 8],
  );
  return Math.min(maxCheckIntervalMs, shortest / 8);
}
