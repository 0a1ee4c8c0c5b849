import { BlockList, isIPv6 } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

const maxAffinities = 100_000;

/** Which of a port's addresses a client came to: external ones and node ports have a traffic policy of their own, load balancer addresses also sources. */
export type Frontend = 'cluster' | 'external' | 'load-balancer';

/** If undefined, all sources are allowed. */
function sourcesOf({ loadBalancerSourceRanges: ranges }: ServicePort): BlockList | undefined {
  if (ranges.length === 0) return undefined;
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits = ''] = range.split('/');
    list.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** Selects endpoints of a port in turn; with session affinity, a client keeps its endpoint while it exists and the timeout has not passed. */
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

  /** Undefined: nobody serves it here, or the client may not come to this door. */
  pick(client: string, door: Frontend): ProxyEndpoint | undefined {
    if (door === 'load-balancer' && this.#sources?.check(client, isIPv6(client) ? 'ipv6' : 'ipv4') === false) return undefined;
    const { endpoints, affinitySeconds, internalLocal, externalLocal } = this.#port;
    const onlyLocal = door === 'cluster' ? internalLocal : externalLocal;
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
