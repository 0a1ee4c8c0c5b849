import { parseCIDR } from '@oarlock/api/net/cidr';
import { NetworkError } from '@oarlock/spi/network';

/** Returns the IP family of a CIDR such as `10.244.0.0/16`. @throws NetworkError `InvalidConfig` if the CIDR is invalid */
export function familyOf(cidr: string): 4 | 6 {
  const range = parseCIDR(cidr);
  if (range === undefined) throw new NetworkError('InvalidConfig', `invalid CIDR: ${JSON.stringify(cidr)}`);
  return range.family === 'IPv4' ? 4 : 6;
}
