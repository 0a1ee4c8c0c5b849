import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';
import type { Clock } from '@oarlock/kernel/clock';

const maxAffinities = 100_000;

/** Round robin over a port's endpoints; with affinity a client stays with its endpoint while that is there and the time has not run out. */
export class Balancer {
  readonly #clock: Clock;
  #port: ServicePort;
  #next = 0;
  readonly #stuck = new Map<string, { readonly endpoint: string; readonly until: number }>();

  constructor(port: ServicePort, clock: Clock) {
    this.#port = port;
    this.#clock = clock;
  }

  get port(): ServicePort { return this.#port; }
  update(port: ServicePort): void { this.#port = port; }

  /** `external`: the traffic came to a node port or an external address. Undefined: nobody serves it here. */
  pick(client: string, external: boolean): ProxyEndpoint | undefined {
    const { endpoints, affinitySeconds, internalLocal, externalLocal } = this.#port;
    const eligible = (external ? externalLocal : internalLocal) ? endpoints.filter(({ local }) => local) : endpoints;
    if (eligible.length === 0) return undefined;
    if (affinitySeconds === undefined) return eligible[this.#next++ % eligible.length];
    const now = this.#clock.monotonic();
    const known = this.#stuck.get(client);
    const kept = known !== undefined && known.until > now ? eligible.find((endpoint) => nameOf(endpoint) === known.endpoint) : undefined;
    const chosen = kept ?? eligible[this.#next++ % eligible.length];
    if (chosen === undefined) return undefined;
    this.#stuck.delete(client);
    if (this.#stuck.size >= maxAffinities) for (const oldest of this.#stuck.keys()) { this.#stuck.delete(oldest); break; }
    this.#stuck.set(client, { endpoint: nameOf(chosen), until: now + affinitySeconds * 1000 });
    return chosen;
  }

  /** Whether an endpoint is still one of this port. */
  has(endpoint: Pick<ProxyEndpoint, 'ip' | 'port'>): boolean {
    return this.#port.endpoints.some(({ ip, port }) => ip === endpoint.ip && port === endpoint.port);
  }
}

export const nameOf = ({ ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>): string => `${ip}:${port}`;
