import { isIP } from 'node:net';
import { NetworkError } from '@oarlock/spi/network';

/** Parses a range such as `10.244.0.0/16`. @throws NetworkError `InvalidConfig` */
export function familyOf(cidr: string): 4 | 6 {
  const [base = '', bits = '', rest] = cidr.split('/');
  const family = isIP(base);
  if (family === 0 || rest !== undefined || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128))
    throw new NetworkError('InvalidConfig', `invalid CIDR: ${JSON.stringify(cidr)}`);
  return family as 4 | 6;
}
