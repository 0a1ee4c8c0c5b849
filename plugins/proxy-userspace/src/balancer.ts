import { isIPv6, type BlockList } from 'node:net';
import { blockListOf } from '@oarlock/api/net/block-list';
import type { Clock } from '@oarlock/primitives/clock';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

const maxAffinities = 100_000;

/**
 * The kind of frontend that a connection arrived at. External frontends and node ports have a separate traffic policy; load balancer addresses also
 * have source ranges.
 */
export type Frontend = 'cluster' | 'external' | 'load-balancer';

/** Returns the allowed source ranges of a port; undefined if all sources are allowed. */
function sourcesOf({ loadBalancerSourceRanges: ranges }: ServicePort): BlockList | undefined {
  if (ranges.length === 0) return undefined;
  return blockListOf(ranges);
}

/**
 * Selects the endpoints of a port in turn. With session affinity, a client keeps its endpoint until the endpoint is removed or the
 * timeout has passed.
 */
export class Balancer {
  readonly #clock: Clock;
  #port: ServicePort;
  #sources: BlockList | undefined;
  #next = 0;
  readonly #stuck = new Map<string, { readonly endpoint: string; readonly until: number }>();

  constructor(port: ServicePort, clock: Clock) {
    this.#port = port;
    this.#sources = sourcesOf(port);
    this.#clock = clock;
  }

  get port(): ServicePort {
    return this.#port;
  }
  update(port: ServicePort): void {
    this.#port = port;
    this.#sources = sourcesOf(port);
  }

  /** Selects an endpoint. Returns undefined if the port has no endpoint for this node, or if the client's address is not allowed. */
  pick(client: string, frontend: Frontend): ProxyEndpoint | undefined {
    if (frontend === 'load-balancer' && this.#sources?.check(client, isIPv6(client) ? 'ipv6' : 'ipv4') === false) return undefined;
    const { endpoints, affinitySeconds, internalLocal, externalLocal } = this.#port;
    const onlyLocal = frontend === 'cluster' ? internalLocal : externalLocal;
    const eligible = endpoints.filter(({ local, localOnly }) => (onlyLocal ? local : localOnly !== true));
    if (eligible.length === 0) return undefined;
    if (affinitySeconds === undefined) return eligible[this.#next++ % eligible.length];
    const now = this.#clock.monotonic();
    const known = this.#stuck.get(client);
    const kept = known !== undefined && known.until > now ? eligible.find((endpoint) => nameOf(endpoint) === known.endpoint) : undefined;
    const chosen = kept ?? eligible[this.#next++ % eligible.length];
    if (chosen === undefined) return undefined;
    this.#stuck.delete(client);
    if (this.#stuck.size >= maxAffinities)
      for (const oldest of this.#stuck.keys()) {
        this.#stuck.delete(oldest);
        break;
      }
    this.#stuck.set(client, { endpoint: nameOf(chosen), until: now + affinitySeconds * 1000 });
    return chosen;
  }

  /** Returns true if an endpoint still belongs to this port. */
  has(endpoint: Pick<ProxyEndpoint, 'ip' | 'port'>): boolean {
    return this.#port.endpoints.some(({ ip, port }) => ip === endpoint.ip && port === endpoint.port);
  }
}

export const nameOf = ({ ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>): string => `${ip}:${port}`;
