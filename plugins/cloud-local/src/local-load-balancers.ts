import type { IPFamily } from '@oarlock/api/net/ip-number';
import type { LoadBalancerStatus, Service } from '@oarlock/api/types/core-v1';
import type { Lister } from '@oarlock/spi/client';
import { CloudError, type CloudLoadBalancers } from '@oarlock/spi/cloud';
import type { AddressPool } from './address-pool.ts';

export interface LocalOptions {
  readonly pool: AddressPool;
  /** The lister of Services, whose status contains the addresses that an earlier process assigned. */
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
 * Assigns addresses of a pool to Services of type LoadBalancer. The nodes' service proxies accept traffic to these addresses. Each Service has its
 * own address while the pool has free addresses; after that, Services with different ports share addresses.
 */
export class LocalLoadBalancers implements CloudLoadBalancers {
  readonly class?: string;
  readonly #options: LocalOptions;
  /** The assignments of this process, which the status of the Services may not contain yet. */
  readonly #assignments = new Map<string, Assignment>();

  constructor(options: LocalOptions) {
    this.#options = options;
    if (options.class !== undefined) this.class = options.class;
  }

  async ensure(service: Service): Promise<LoadBalancerStatus> {
    const key = keyOf(service);
    const { pool } = this.#options;
    const portsInUse = this.#portsInUse(key);
    const ports = portsOf(service);
    const free = (address: string) => ports.every((port) => portsInUse.get(address)?.has(port) !== true);
    const requested = service.spec?.loadBalancerIP ?? '';
    if (requested !== '' && !pool.has(requested))
      throw new CloudError('Invalid', `the address ${requested} is not in the load balancer ranges`);
    const assigned = (this.#assignments.get(key)?.addresses ?? addressesOf(service)).filter(
      (address) => pool.has(address) && free(address),
    );
    const addresses: string[] = [];
    for (const family of familiesOf(service)) {
      const fits = (address: string) => address.includes(':') === (family === 'IPv6');
      const address =
        requested !== '' && fits(requested) && free(requested)
          ? requested
          : ((requested === '' ? assigned.find(fits) : undefined) ?? (requested === '' ? this.#next(family, portsInUse, free) : undefined));
      if (address !== undefined) addresses.push(address);
    }
    if (addresses.length === 0)
      throw new CloudError(
        'NotAvailable',
        requested === ''
          ? 'no address is left for the load balancer'
          : `the address ${requested} is assigned to another Service with the same port`,
      );
    this.#assignments.set(key, { addresses, ports: ports });
    return { ingress: addresses.map((ip) => ({ ip, ipMode: 'VIP' })) };
  }

  async remove(service: Service): Promise<void> {
    this.#assignments.delete(keyOf(service));
  }

  #next(family: IPFamily, portsInUse: ReadonlyMap<string, ReadonlySet<string>>, free: (address: string) => boolean): string | undefined {
    let shared: string | undefined;
    for (const address of this.#options.pool.all(family)) {
      if (!portsInUse.has(address)) return address;
      if (shared === undefined && free(address)) shared = address;
    }
    return shared;
  }

  /** Returns the ports in use, keyed by address, without those of the Service `except`. */
  #portsInUse(except: string): Map<string, Set<string>> {
    const portsInUse = new Map<string, Set<string>>();
    const take = (addresses: readonly string[], ports: readonly string[]) => {
      for (const address of addresses) {
        const used = portsInUse.get(address) ?? new Set();
        for (const port of ports) used.add(port);
        portsInUse.set(address, used);
      }
    };
    for (const [key, { addresses, ports }] of this.#assignments) if (key !== except) take(addresses, ports);
    for (const service of this.#options.services.list()) {
      const key = keyOf(service);
      if (key !== except && service.spec?.type === 'LoadBalancer' && !this.#assignments.has(key))
        take(addressesOf(service), portsOf(service));
    }
    return portsInUse;
  }
}

function familiesOf({ spec }: Service): readonly IPFamily[] {
  const stated = (spec?.ipFamilies ?? []).filter((family): family is IPFamily => family === 'IPv4' || family === 'IPv6');
  return stated.length > 0 ? stated : ['IPv4'];
}
