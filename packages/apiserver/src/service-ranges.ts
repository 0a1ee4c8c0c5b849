import type { ClusterFacts } from '@oarlock/spi/cluster';
import { familyOf, formatAddress, addressOf, IPRange, type IPFamily } from './ip-range.ts';
import { root } from './watch-cache/watch-cache.ts';

const ipRoot = `${root}ranges/serviceips/`;
const portRoot = `${root}ranges/servicenodeports/`;

/**
 * Addresses and node ports of Services. Each one that is taken is a key in storage, written and deleted in the commit that writes the
 * Service: so no two servers give the same one twice, and none is lost. What is known here follows storage and only helps to choose.
 */
export class ServiceRanges {
  readonly #ranges: readonly IPRange[];
  readonly #ports: { readonly from: number; readonly to: number };
  readonly #random: () => number;
  readonly #taken = new Set<string>();

  constructor(facts: Pick<ClusterFacts, 'serviceCIDRs' | 'nodePortRange'>, random: () => number) {
    this.#ranges = facts.serviceCIDRs.map((cidr) => new IPRange(cidr));
    this.#ports = facts.nodePortRange;
    this.#random = random;
  }

  /** In order of preference. */
  get families(): readonly IPFamily[] {
    return [...new Set(this.#ranges.map(({ family }) => family))];
  }
  get portRange(): string {
    return `${this.#ports.from}-${this.#ports.to}`;
  }

  ipKey(address: string): string {
    const family = familyOf(address);
    const value = addressOf(address);
    return `${ipRoot}${family === undefined || value === undefined ? address : formatAddress(value, family)}`;
  }
  portKey(port: number): string {
    return `${portRoot}${port}`;
  }

  reset(): void {
    this.#taken.clear();
  }
  learn(key: string, present: boolean): void {
    if (!key.startsWith(ipRoot) && !key.startsWith(portRoot)) return;
    if (present) this.#taken.add(key);
    else this.#taken.delete(key);
  }
  isTaken(key: string): boolean {
    return this.#taken.has(key);
  }

  rangeOf(address: string): IPRange | undefined {
    return this.#ranges.find((range) => range.contains(address));
  }
  cidrs(family: IPFamily | undefined): string {
    return this.#ranges
      .filter((range) => family === undefined || range.family === family)
      .map(({ cidr }) => cidr)
      .join(',');
  }
  hasPort(port: number): boolean {
    return port >= this.#ports.from && port <= this.#ports.to;
  }

  /** A free address, from the upper part of the range first: the lower part is for those that users name. KEP-3070. */
  freeIP(family: IPFamily, also: ReadonlySet<string>): string | undefined {
    for (const range of this.#ranges) {
      if (range.family !== family) continue;
      const reserved = band(range.size, 16, 256);
      const index = this.#free(range.size, reserved, (i) => this.ipKey(range.at(i)), also);
      if (index !== undefined) return range.at(index);
    }
    return undefined;
  }

  /** As `freeIP`, for node ports. KEP-3668. */
  freePort(also: ReadonlySet<string>): number | undefined {
    const size = this.#ports.to - this.#ports.from + 1;
    const reserved = size < 32 ? 0 : Math.min(Math.max(16, Math.floor(size / 32)), 128);
    const index = this.#free(size, reserved, (i) => this.portKey(this.#ports.from + i), also);
    return index === undefined ? undefined : this.#ports.from + index;
  }

  #free(size: number, reserved: number, key: (index: number) => string, also: ReadonlySet<string>): number | undefined {
    for (const [from, to] of [
      [reserved, size],
      [0, reserved],
    ] as const) {
      const count = to - from;
      if (count <= 0) continue;
      const start = Math.floor(this.#random() * count);
      for (let i = 0; i < count; i++) {
        const index = from + ((start + i) % count);
        const candidate = key(index);
        if (!this.#taken.has(candidate) && !also.has(candidate)) return index;
      }
    }
    return undefined;
  }
}

function band(size: number, least: number, most: number): number {
  return size <= least ? 0 : Math.min(Math.max(least, Math.floor(size / 16)), most);
}
