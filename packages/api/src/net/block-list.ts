import { BlockList } from 'node:net';
import { parseCIDRSloppy } from './cidr.ts';
import { formatIPNumber } from './ip-number.ts';

/** Returns a BlockList of the networks. @throws RangeError for text that is not a CIDR */
export function blockListOf(cidrs: Iterable<string>): BlockList {
  const list = new BlockList();
  for (const text of cidrs) {
    const cidr = parseCIDRSloppy(text);
    if (cidr === undefined) throw new RangeError(`invalid CIDR address: ${text}`);
    list.addSubnet(formatIPNumber(cidr.first, cidr.family), cidr.prefixLength, cidr.family === 'IPv4' ? 'ipv4' : 'ipv6');
  }
  return list;
}
