import { parseIPNumber, familyOf, formatIPNumber, type IPFamily } from '@oarlock/api/net/ip-number';
import type { KubeObject } from '@oarlock/api/object';
import { formatTime } from '@oarlock/api/values/time';
import type { ServiceCIDR } from '@oarlock/api/types/networking-v1';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import { IPRange } from './ip-range.ts';
import type { RandomSource } from '../random.ts';
import type { StoredKind } from '../served-kind.ts';
import { storageRoot } from '../../storage/storage-root.ts';

const ipRoot = `${storageRoot}ranges/serviceips/`;
const portRoot = `${storageRoot}ranges/servicenodeports/`;
export const ipFamilyLabel = 'ipaddress.kubernetes.io/ip-family';
export const managedByLabel = 'ipaddress.kubernetes.io/managed-by';
export const managedByAllocator = 'ipallocator.k8s.io';

/** The object to which an address or port is allocated. */
export interface AllocationOwner {
  readonly namespace: string;
  readonly name: string;
}

interface AllocationRange {
  readonly size: number;
  /** The number of values at the start of the range that are reserved for users to choose. */
  readonly reserved: number;
  /** Returns the storage key of the value with this index. */
  key(index: number): string;
}

/**
 * Allocates the cluster IPs and node ports of Services (ipallocator and portallocator upstream). Each allocation is a storage key that is written
 * and deleted in the same commit as its Service, so that two servers cannot allocate the same value and no allocation leaks. The key of a cluster IP
 * is an IPAddress object (KEP-1880). The state of this class follows storage and only serves to choose free values.
 */
export class ServiceAllocator {
  readonly #defaults: readonly IPRange[];
  readonly #ports: { readonly from: number; readonly to: number };
  readonly #random: Pick<RandomSource, 'next' | 'uuid'>;
  readonly #allocated = new Set<string>();
  /** The parsed ranges by CIDR text. */
  readonly #parsed = new Map<string, IPRange>();
  #addresses: StoredKind | undefined;
  #cidrs: StoredKind | undefined;
  #current: { readonly at: number; readonly ranges: readonly IPRange[] } | undefined;

  constructor(facts: Pick<ClusterFacts, 'serviceCIDRs' | 'nodePortRange'>, random: Pick<RandomSource, 'next' | 'uuid'>) {
    this.#defaults = facts.serviceCIDRs.map((cidr) => new IPRange(cidr));
    this.#ports = facts.nodePortRange;
    this.#random = random;
  }

  /** Sets the caches of IPAddresses and ServiceCIDRs. Without them, the ranges of the cluster configuration are used. */
  setIndexes(addresses: StoredKind | undefined, cidrs: StoredKind | undefined): void {
    this.#addresses = addresses;
    this.#cidrs = cidrs;
  }

  /** The address families in order of preference, from the cluster configuration. */
  get families(): readonly IPFamily[] {
    return [...new Set(this.#defaults.map(({ family }) => family))];
  }
  get portRange(): string {
    return `${this.#ports.from}-${this.#ports.to}`;
  }

  ipKey(address: string): string {
    const family = familyOf(address);
    const value = parseIPNumber(address);
    const name = family === undefined || value === undefined ? address : formatIPNumber(value, family);
    return `${this.#addresses?.storagePrefix ?? ipRoot}${name}`;
  }
  portKey(port: number): string {
    return `${portRoot}${port}`;
  }

  /** Returns the value to store at the key of an allocation to `owner`. */
  valueOf(key: string, { namespace, name }: AllocationOwner, now: number): Uint8Array {
    const addresses = this.#addresses;
    if (addresses === undefined || !key.startsWith(addresses.storagePrefix))
      return Buffer.from(JSON.stringify({ service: `${namespace}/${name}` }));
    const address = key.slice(addresses.storagePrefix.length);
    return addresses.codec.encode({
      metadata: {
        name: address,
        uid: this.#random.uuid(),
        creationTimestamp: formatTime(now),
        labels: { [ipFamilyLabel]: familyOf(address) ?? 'IPv4', [managedByLabel]: managedByAllocator },
      },
      ...{ spec: { parentRef: { resource: 'services', namespace, name } } },
    } as KubeObject);
  }

  reset(): void {
    this.#allocated.clear();
  }
  setAllocated(key: string, present: boolean): void {
    if (!key.startsWith(ipRoot) && !key.startsWith(portRoot)) return;
    if (present) this.#allocated.add(key);
    else this.#allocated.delete(key);
  }
  isAllocated(key: string): boolean {
    const addresses = this.#addresses;
    return addresses !== undefined && key.startsWith(addresses.storagePrefix)
      ? addresses.cache.get(key.slice(addresses.storagePrefix.length)) !== undefined
      : this.#allocated.has(key);
  }

  rangeOf(address: string): IPRange | undefined {
    return this.#ranges().find((range) => range.contains(address));
  }
  cidrs(family: IPFamily | undefined): string {
    return this.#ranges()
      .filter((range) => family === undefined || range.family === family)
      .map(({ cidr }) => cidr)
      .join(',');
  }
  hasPort(port: number): boolean {
    return port >= this.#ports.from && port <= this.#ports.to;
  }

  /**
   * Returns a free address; undefined if there is none. Prefers the upper part of the range, because users choose addresses from the lower part
   * (KEP-3070).
   */
  allocateIP(family: IPFamily, also: ReadonlySet<string>): string | undefined {
    for (const range of this.#ranges()) {
      if (range.family !== family) continue;
      const reserved = offsetBand(range.size, 16, 256);
      const index = this.#free({ size: range.size, reserved, key: (i) => this.ipKey(range.at(i)) }, also);
      if (index !== undefined) return range.at(index);
    }
    return undefined;
  }

  /** Returns a free node port; undefined if there is none. Prefers the upper part of the range (KEP-3668). */
  allocatePort(also: ReadonlySet<string>): number | undefined {
    const size = this.#ports.to - this.#ports.from + 1;
    const reserved = size < 32 ? 0 : Math.min(Math.max(16, Math.floor(size / 32)), 128);
    const index = this.#free({ size, reserved, key: (i) => this.portKey(this.#ports.from + i) }, also);
    return index === undefined ? undefined : this.#ports.from + index;
  }

  /** Returns the ranges of all ServiceCIDRs that are ready and not being deleted; the configured ranges if there is none. */
  #ranges(): readonly IPRange[] {
    const cidrs = this.#cidrs;
    if (cidrs === undefined) return this.#defaults;
    const at = cidrs.cache.lastChangeRevision;
    if (this.#current?.at === at) return this.#current.ranges;
    const texts = cidrs.cache
      .select({ namespace: '', key: undefined, indexed: undefined, matches: ({ metadata }) => metadata?.deletionTimestamp === undefined })
      .map(({ object }) => object as ServiceCIDR)
      .filter(isReady)
      .flatMap(({ spec }) => spec?.cidrs ?? []);
    const ranges = texts.length === 0 && cidrs.cache.size === 0 ? this.#defaults : [...new Set(texts)].map((text) => this.#range(text));
    this.#current = { at, ranges };
    return ranges;
  }

  #range(text: string): IPRange {
    let range = this.#parsed.get(text);
    if (range === undefined) this.#parsed.set(text, (range = new IPRange(text)));
    return range;
  }

  /**
   * Returns the index of a free value, chosen at random from the upper part of the range, or from the reserved lower part if the upper part is
   * exhausted.
   */
  #free({ size, reserved, key }: AllocationRange, also: ReadonlySet<string>): number | undefined {
    for (const [from, to] of [
      [reserved, size],
      [0, reserved],
    ] as const) {
      const count = to - from;
      if (count <= 0) continue;
      const start = Math.floor(this.#random.next() * count);
      for (let i = 0; i < count; i++) {
        const index = from + ((start + i) % count);
        const candidate = key(index);
        if (!this.isAllocated(candidate) && !also.has(candidate)) return index;
      }
    }
    return undefined;
  }
}

/** Returns true if a ServiceCIDR is ready. A ServiceCIDR without the condition Ready counts as ready. */
export function isReady({ status }: ServiceCIDR): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready === undefined || ready.status === 'True';
}

function offsetBand(size: number, least: number, most: number): number {
  return size <= least ? 0 : Math.min(Math.max(least, Math.floor(size / 16)), most);
}
