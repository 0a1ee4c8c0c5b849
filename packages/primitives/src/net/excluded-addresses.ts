import { lookup as resolve, type LookupAddress } from 'node:dns';
import { BlockList, isIPv6, type LookupFunction } from 'node:net';

const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4');

/** IP addresses to which a client does not connect, as addresses of a destination or of a name. An IPv4-mapped IPv6 address is its IPv4 address. */
export class ExcludedAddresses {
  readonly #list = new BlockList();

  constructor(addresses: readonly string[]) {
    for (const address of addresses) this.#list.addAddress(address, familyOf(address));
  }

  /** Returns true for an excluded IP address, and false for names, whose addresses `lookup` checks. */
  has(host: string): boolean {
    return this.#list.check(host, familyOf(host));
  }

  /** Resolves a name without its excluded addresses. Fails if it has no others. */
  readonly lookup: LookupFunction = (hostname, options, done) => {
    resolve(hostname, { ...options, all: true }, (error, found: LookupAddress[] = []) => {
      const allowed = found.filter(({ address }) => !this.has(address));
      const [first] = allowed;
      if (error !== null) done(error, '');
      else if (first === undefined) done(new Error('address not allowed'), '');
      else if (options.all === true) done(null, allowed);
      else done(null, first.address, first.family);
    });
  };
}
