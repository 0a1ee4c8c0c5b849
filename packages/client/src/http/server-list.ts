import { isIP } from 'node:net';

/** Timing of the detection of silent connections, in milliseconds: `silenceMs` without incoming data, then `pingMs` without an answer to a PING. */
export interface KeepAliveTiming {
  readonly silenceMs: number;
  readonly pingMs: number;
  /** Timeout of the TCP and TLS handshake. */
  readonly dialMs: number;
}

/** client-go's values. With one server a reconnect has no alternative, so a slow server is given time. */
const singleServer: KeepAliveTiming = { silenceMs: 30_000, pingMs: 15_000, dialMs: 10_000 };
/** A server that is stopped or cut off is left within 3.5 s, and a request reaches another server within 5 s. */
const severalServers: KeepAliveTiming = { silenceMs: 1500, pingMs: 2000, dialMs: 2000 };

/** Limit of the servers in a list. Kubernetes clusters have 1 to 7. */
const maxServers = 64;

/**
 * The API servers of a cluster, in the order in which clients try them. All clients of a process share one list, so that a failure that one of them
 * finds moves all new connections. The order starts random, so that many processes spread over the servers; a server that failed moves to the end.
 */
export class ServerList {
  readonly #random: () => number;
  /** Servers that stay in the list when discovery does not report them, such as the address of a load balancer. */
  readonly #configured: readonly string[];
  #discovered: readonly string[];
  /** All servers, the preferred one first. */
  #order: readonly string[];
  readonly #listeners = new Set<() => void>();
  readonly #failureListeners = new Set<(server: string) => void>();

  /** `discovered` are servers that an earlier process found. @throws Error if a URL is invalid or the URLs differ in path or scheme */
  constructor(configured: readonly string[], { random, discovered = [] }: { random: () => number; discovered?: readonly string[] }) {
    const urls = configured.map((server) => parseServer(server));
    const [first] = urls;
    if (first === undefined) throw new Error('a client requires at least one server');
    for (const { href, pathname, protocol } of urls)
      if (pathname !== first.pathname || protocol !== first.protocol)
        throw new Error(`the servers ${first.href} and ${href} differ in scheme or path`);
    this.#random = random;
    this.#configured = [...new Set(urls.map((url) => normalized(url)))];
    this.#discovered = this.#usable(discovered);
    // discovered servers are newer information than the configured ones
    this.#order = unique([...shuffled(this.#discovered, random), ...shuffled(this.#configured, random)]);
  }

  /** All servers, the preferred one first. */
  get servers(): readonly string[] {
    return this.#order;
  }
  /** The server that new connections try first. */
  get preferred(): string {
    return this.#order[0] ?? '';
  }
  get timing(): KeepAliveTiming {
    return this.#order.length > 1 ? severalServers : singleServer;
  }

  /** Moves a server to the end of the order, after a failed or lost connection. */
  markFailed(server: string): void {
    if (!this.#order.includes(server)) return;
    this.#order = [...this.#order.filter((other) => other !== server), server];
    for (const listener of this.#failureListeners) listener(server);
  }

  /**
   * Replaces the discovered servers and returns true if the list changed. Configured servers stay. An empty list is ignored: the cluster has at least
   * the server that reported it. New servers are inserted at random positions, so that clients also spread over them.
   */
  setDiscovered(servers: readonly string[]): boolean {
    const next = this.#usable(servers);
    if (next.length === 0 || (next.length === this.#discovered.length && next.every((server) => this.#discovered.includes(server))))
      return false;
    this.#discovered = next;
    const kept = this.#order.filter((server) => next.includes(server) || this.#configured.includes(server));
    const order = [...kept];
    for (const server of next) if (!order.includes(server)) order.splice(1 + Math.floor(this.#random() * order.length), 0, server);
    this.#order = order;
    for (const listener of this.#listeners) listener();
    return true;
  }

  /** Calls the listener after each change of the set of servers. Returns a function that removes the listener. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls the listener after each failure of a server of the list. Returns a function that removes the listener. */
  onFailure(listener: (server: string) => void): () => void {
    this.#failureListeners.add(listener);
    return () => this.#failureListeners.delete(listener);
  }

  /** Returns the valid https servers. Servers behind a URL with a path are reached only through that URL. */
  #usable(servers: readonly string[]): readonly string[] {
    const { protocol, pathname } = new URL(this.#configured[0] ?? '');
    if (protocol !== 'https:' || pathname !== '/') return [];
    return unique(
      servers.filter((server) => URL.canParse(server) && server.startsWith('https://')).map((server) => normalized(new URL(server))),
    );
  }
}

/** Returns `https://address:port`, with brackets around an IPv6 address. */
export const serverUrl = (address: string, port: number): string => `https://${isIP(address) === 6 ? `[${address}]` : address}:${port}`;

function parseServer(server: string): URL {
  if (!URL.canParse(server)) throw new Error(`${server} is not a URL`);
  const url = new URL(server);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new Error(`${server} is neither https nor http`);
  return url;
}

const normalized = ({ protocol, host, pathname }: URL): string => `${protocol}//${host}${pathname.replace(/\/+$/, '')}`;
const unique = (servers: readonly string[]): readonly string[] => [...new Set(servers)].slice(0, maxServers);

/** Returns the list in random order (Fisher-Yates). */
function shuffled(servers: readonly string[], random: () => number): readonly string[] {
  const list = [...servers];
  for (let at = list.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    const [a = '', b = ''] = [list[at], list[other]];
    list[at] = b;
    list[other] = a;
  }
  return list;
}
