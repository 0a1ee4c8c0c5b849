import type { IPFamily } from '@oarlock/api/net/ip-number';
import type { LoadBalancerStatus, Service } from '@oarlock/api/types/core-v1';
import type { Lister } from '@oarlock/spi/client';
import { CloudError, type CloudLoadBalancers } from '@oarlock/spi/cloud';
import type { AddressPool } from './address-pool.ts';

export interface LocalOptions {
  readonly pool: AddressPool;
  /** Whose addresses are known from their status: what was given before this process began stays given. */
  readonly services: Pick<Lister<Service>, 'list'>;
  readonly class?: string;
}

const keyOf = ({ metadata }: Service): string => `${metadata?.namespace}/${metadata?.name}`;
const portsOf = ({ spec }: Service): readonly string[] => (spec?.ports ?? []).map(({ port, protocol = 'TCP' }) => `${protocol}/${port}`);
const addressesOf = ({ status }: Service): readonly string[] =>
  (status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => (ip === undefined ? [] : [ip]));

interface Assignment {
  readonly addresses: readonly string[];
  readonly ports: readonly string[];
}

/**
 * Gives Services addresses out of a pool; the proxies of the nodes answer at them. A Service has an address of its own as long as there is one left;
 * then it shares one with Services whose ports are others.
 */
export class LocalLoadBalancers implements CloudLoadBalancers {
  readonly class?: string;
  readonly #options: LocalOptions;
  /** What was given and is perhaps not in a status yet. */
  readonly #assignments = new Map<string, Assignment>();

  constructor(options: LocalOptions) {
    this.#options = options;
    if (options.class !== undefined) this.class = options.class;
  }

  async ensure(service: Service): Promise<LoadBalancerStatus> {
    const key = keyOf(service);
    const { pool } = this.#options;
    const taken = this.#taken(key);
    const wanted = portsOf(service);
    const free = (address: string) => wanted.every((port) => taken.get(address)?.has(port) !== true);
    const asked = service.spec?.loadBalancerIP ?? '';
    if (asked !== '' && !pool.has(asked))
      throw new CloudError('Invalid', `the address ${asked} is not one of this machine's for load balancers`);
    const held = (this.#assignments.get(key)?.addresses ?? addressesOf(service)).filter((address) => pool.has(address) && free(address));
    const addresses: string[] = [];
    for (const family of familiesOf(service)) {
      const fits = (address: string) => address.includes(':') === (family === 'IPv6');
      const address =
        asked !== '' && fits(asked) && free(asked)
          ? asked
          : ((asked === '' ? held.find(fits) : undefined) ?? (asked === '' ? this.#next(family, taken, free) : undefined));
      if (address !== undefined) addresses.push(address);
    }
    if (addresses.length === 0)
      throw new CloudError(
        'NotAvailable',
        asked === ''
          ? 'no address is left for the load balancer'
          : `the address ${asked} has been given to another Service with the same port`,
      );
    this.#assignments.set(key, { addresses, ports: wanted });
    return { ingress: addresses.map((ip) => ({ ip, ipMode: 'VIP' })) };
  }

  async remove(service: Service): Promise<void> {
    this.#assignments.delete(keyOf(service));
  }

  #next(family: IPFamily, taken: ReadonlyMap<string, ReadonlySet<string>>, free: (address: string) => boolean): string | undefined {
    let shared: string | undefined;
    for (const address of this.#options.pool.all(family)) {
      if (!taken.has(address)) return address;
      if (shared === undefined && free(address)) shared = address;
    }
    return shared;
  }

  /** Ports in use, by address. */
  #taken(except: string): Map<string, Set<string>> {
    const taken = new Map<string, Set<string>>();
    const take = (addresses: readonly string[], ports: readonly string[]) => {
      for (const address of addresses) {
        const there = taken.get(address) ?? new Set();
        for (const port of ports) there.add(port);
        taken.set(address, there);
      }
    };
    for (const [key, { addresses, ports }] of this.#assignments) if (key !== except) take(addresses, ports);
    for (const service of this.#options.services.list()) {
      const key = keyOf(service);
      if (key !== except && service.spec?.type === 'LoadBalancer' && !this.#assignments.has(key))
        take(addressesOf(service), portsOf(service));
    }
    return taken;
  }
}

function familiesOf({ spec }: Service): readonly IPFamily[] {
  const stated = (spec?.ipFamilies ?? []).filter((family): family is IPFamily => family === 'IPv4' || family === 'IPv6');
  return stated.length > 0 ? stated : ['IPv4'];
}
