import type { networkInterfaces } from 'node:os';
import { cidrContains, parseCIDR } from '@oarlock/api/net/cidr';

export interface ForeignInterface {
  readonly name: string;
  readonly address: string;
  /** The range of the node's pods that contains the address. */
  readonly range: string;
}

/**
 * Returns an interface that has an address in a range of the node's pods, but is not one of the network's `own`, such as the bridge of another cluster that
 * stopped, or of a container engine. The kernel has a route to the range over each of them, and uses the older one.
 */
export function foreignInterface(
  ranges: readonly string[],
  own: readonly string[],
  interfaces: ReturnType<typeof networkInterfaces>,
): ForeignInterface | undefined {
  for (const [name, addresses = []] of Object.entries(interfaces)) {
    if (own.includes(name)) continue;
    for (const { address } of addresses) {
      const range = ranges.find((text) => {
        const cidr = parseCIDR(text);
        return cidr !== undefined && cidrContains(cidr, address);
      });
      if (range !== undefined) return { name, address, range };
    }
  }
  return undefined;
}
