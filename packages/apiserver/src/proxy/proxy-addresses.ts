import { lookup as resolve, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import { ipFamily, isLoopback } from '@oarlock/api/net/ip';
import { badRequest, type StatusError } from '@oarlock/api/status';

/**
 * The addresses to which requests are never proxied: those that Go's `IsGlobalUnicast` excludes, without loopback addresses. An IPv4-mapped IPv6
 * address is checked as its IPv4 address.
 */
const neverProxied = new BlockList();
for (const [net, prefix, family] of [
  ['0.0.0.0', 32, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['224.0.0.0', 4, 'ipv4'],
  ['255.255.255.255', 32, 'ipv4'],
  ['::', 128, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
] as const)
  neverProxied.addSubnet(net, prefix, family);

const familyOf = (address: string) => (ipFamily(address) === 6 ? 'ipv6' : 'ipv4');
/** Returns the error `ErrAddressNotAllowed` of Kubernetes' pkg/proxy/util. */
export const addressNotAllowed = (): StatusError => badRequest('address not allowed');

/** Returns true if a text is an IP address to which requests may be proxied. */
export const isProxyable = (address: string, allowLoopback: boolean): boolean =>
  ipFamily(address) !== 0 && !neverProxied.check(address, familyOf(address)) && (allowLoopback || !isLoopback(address));

export interface Listener {
  readonly host: string;
  readonly port: number;
}

/** The destination of a connection of this server. `allowLoopback` is true if the destination may be a loopback address. */
export interface Destination extends Listener {
  readonly allowLoopback: boolean;
}

export interface ProxyAddressesOptions {
  /** Returns the addresses on which this API server listens, and those at which other machines reach it. */
  listeners(): readonly Listener[];
  /** The addresses that are destinations on no port, such as the cluster IP of the Service `kubernetes`, which leads to an API server. */
  readonly excluded?: readonly string[];
}

/**
 * Decides to which addresses the API server connects on behalf of objects and clients. The decision is on the addresses that a connection is made to,
 * after names are resolved: `localhost`, `2130706433`, `0177.0.0.1` and `::ffff:127.0.0.1` are all the same destination.
 *
 * - An API server is never a destination: it would treat a forwarded request as one of the API server itself. Its listeners are excluded by
 *   address and port, because pods and kubelets of a machine may share the address.
 * - Unspecified, link-local and multicast addresses are never destinations, as in Kubernetes: no pod or node has such an address.
 * - Loopback addresses are destinations for ports of pods and nodes only if the cluster's own ranges are on loopback (plugin network-host). In
 *   other clusters a pod with such an address would reach any process of this machine. As in Kubernetes, the kubelet endpoint that a Node
 *   reports and the Service of an APIService may be on loopback: clusters of one machine have them there, and the client certificates of these
 *   requests have no permissions of administrators.
 */
export class ProxyAddresses {
  readonly #options: ProxyAddressesOptions;

  constructor(options: ProxyAddressesOptions) {
    this.#options = options;
  }

  allows(address: string, { port, allowLoopback }: Omit<Destination, 'host'>): boolean {
    return isProxyable(address, allowLoopback) && !this.#isApiServer(address, port);
  }

  /**
   * Checks a destination that is an IP address, and returns the resolver that checks those of a name.
   * @throws StatusError `BadRequest`
   */
  lookup(destination: Destination): LookupFunction {
    if (isIP(destination.host) !== 0 && !this.allows(destination.host, destination)) throw addressNotAllowed();
    return (hostname, options, done) => {
      resolve(hostname, { ...options, all: true }, (error, found: LookupAddress[] = []) => {
        const allowed = found.filter(({ address }) => this.allows(address, destination));
        const [first] = allowed;
        if (error !== null) done(error, '');
        else if (first === undefined) done(lookupError(), '');
        else if (options.all === true) done(null, allowed);
        else done(null, first.address, first.family);
      });
    };
  }

  #isApiServer(address: string, port: number): boolean {
    const own = new BlockList();
    for (const each of this.#options.excluded ?? []) if (ipFamily(each) !== 0) own.addAddress(each, familyOf(each));
    for (const listener of this.#options.listeners()) {
      if (listener.port !== port || ipFamily(listener.host) === 0) continue;
      own.addAddress(listener.host, familyOf(listener.host));
      if (listener.host === '0.0.0.0' || listener.host === '::') addThisMachine(own);
    }
    return own.check(address, familyOf(address));
  }
}

/** Returns the error for a resolver callback, whose type expects a Node.js error code. The proxies receive the error unchanged. */
const lookupError = (): Error => addressNotAllowed() as Error;

/** Adds the addresses of a listener on all addresses: 127.0.0.0/8, ::1 and the addresses of each network interface. */
function addThisMachine(list: BlockList): void {
  list.addSubnet('127.0.0.0', 8, 'ipv4');
  list.addAddress('::1', 'ipv6');
  for (const { address } of Object.values(networkInterfaces()).flatMap((found) => found ?? [])) list.addAddress(address, familyOf(address));
}
