import { isIPv4, isIPv6 } from 'node:net';
import { familyOf } from '@oarlock/network-cni/routing/cidr';
import { NetworkError } from '@oarlock/spi/network';

export interface Range {
  readonly family: 4 | 6;
  readonly first: bigint;
  /** Prefix length. */
  readonly bits: number;
}
const width = (family: 4 | 6) => (family === 4 ? 32 : 128);
export const sizeOf = ({ family, bits }: Range): bigint => 1n << BigInt(width(family) - bits);
export const wholeBits = (family: 4 | 6): number => width(family);

/** @throws NetworkError `InvalidConfig` */
export function parseAddress(text: string): { readonly family: 4 | 6; readonly value: bigint } {
  if (isIPv4(text)) return { family: 4, value: text.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n) };
  if (!isIPv6(text) || text.includes('%')) throw new NetworkError('InvalidConfig', `not an IP address: ${JSON.stringify(text)}`);
  // the last two groups may be an IPv4 address in dotted form
  const hex = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...parts: string[]) =>
    [0, 2].map((at) => (Number(parts[at]) * 256 + Number(parts[at + 1])).toString(16)).join(':'),
  );
  const [head = '', tail] = hex.split('::');
  const groups = (part: string) => (part === '' ? [] : part.split(':'));
  const [before, after] = [groups(head), tail === undefined ? [] : groups(tail)];
  const all = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after];
  return { family: 6, value: all.reduce((sum, group) => (sum << 16n) + BigInt(`0x${group}`), 0n) };
}

/** Formats an address as the kernel prints it (RFC 5952). */
export function formatAddress(family: 4 | 6, value: bigint): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 255n)).join('.');
  const groups = Array.from({ length: 8 }, (_, at) => ((value >> BigInt(112 - 16 * at)) & 0xffffn).toString(16)).join(':');
  // RFC 5952, section 4.2: the longest run of at least two zero groups, the first of several
  const runs = [...groups.matchAll(/(?:^|(?<=:))0(?::0)+(?=:|$)/g)].sort((a, b) => b[0].length - a[0].length || a.index - b.index);
  const [run] = runs;
  if (!run) return groups;
  const [before, after] = [groups.slice(0, run.index).replace(/:$/, ''), groups.slice(run.index + run[0].length).replace(/^:/, '')];
  return `${before}::${after}`;
}

/** @throws NetworkError `InvalidConfig` */
export function parseRange(cidr: string): Range {
  familyOf(cidr);
  const [base = '', bits = ''] = cidr.split('/');
  const { family, value } = parseAddress(base);
  const size = BigInt(width(family) - Number(bits));
  return { family, first: (value >> size) << size, bits: Number(bits) };
}
export const formatRange = ({ family, first, bits }: Range): string => `${formatAddress(family, first)}/${bits}`;
export const contains = (range: Range, family: 4 | 6, value: bigint): boolean =>
  range.family === family && value >= range.first && value < range.first + sizeOf(range);
