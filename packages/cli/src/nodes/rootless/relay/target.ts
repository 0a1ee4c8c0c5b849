import { isIPv4 } from 'node:net';

/** A destination of a connection or of datagrams. */
export interface Target {
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
}

/** The maximum size of the line that names a target. */
export const maxTargetBytes = 64;

/** Returns the first line of a connection between the two sides of the relay: `tcp 192.0.2.7 443`. */
export const formatTarget = ({ protocol, address, port }: Target): string => `${protocol} ${address} ${port}\n`;

/** Parses the line, without its end. Undefined if it is not valid. */
export function parseTarget(line: string): Target | undefined {
  const [, protocol, address = '', port] = /^(tcp|udp) ([\d.]+) (\d{1,5})$/.exec(line) ?? [];
  const number = Number(port);
  if ((protocol !== 'tcp' && protocol !== 'udp') || !isIPv4(address) || number < 1 || number > 65_535) return undefined;
  return { protocol, address, port: number };
}
