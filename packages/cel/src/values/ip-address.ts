import { isIPv4, isIPv6 } from 'node:net';

export interface Address {
  readonly bits: 32 | 128;
  readonly value: bigint;
  /** True for an IPv4-mapped IPv6 address such as `::ffff:1.2.3.4`. */
  readonly mapped: boolean;
  readonly zoned: boolean;
}

/** Parses an IP address; returns undefined if the text is not an IP address. Leading zeros are not allowed. */
export function parseAddress(text: string): Address | undefined {
  if (text.length > 128) return undefined;
  if (isIPv4(text)) return { bits: 32, value: v4(text), mapped: false, zoned: false };
  if (!isIPv6(text)) return undefined;
  const [plain = '', zone] = text.split('%');
  const value = v6(plain);
  return { bits: 128, value, mapped: value >> 32n === 0xffffn, zoned: zone !== undefined };
}

const v4 = (text: string): bigint => text.split('.').reduce((value, part) => (value << 8n) | BigInt(part), 0n);

function v6(text: string): bigint {
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted !== null) {
    const tail = v4(dotted[2] ?? '');
    return v6(`${dotted[1]}${(tail >> 16n).toString(16)}:${(tail & 0xffffn).toString(16)}`);
  }
  const [head = '', tail] = text.split('::');
  const groups = (part: string | undefined) => (part === undefined || part === '' ? [] : part.split(':'));
  const [before, after] = [groups(head), groups(tail)];
  const all = tail === undefined ? before : [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after];
  return all.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}

/** Formats an address by RFC 5952. */
export function formatAddress({ bits, value }: Address): string {
  if (bits === 32) return [24n, 16n, 8n, 0n].map((shift) => ((value >> shift) & 0xffn).toString()).join('.');
  const groups = Array.from({ length: 8 }, (_, i) => ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));
  let [start, length] = [-1, 1];
  for (let i = 0; i < 8; i++) {
    let run = 0;
    while (i + run < 8 && groups[i + run] === '0') run++;
    if (run > length) [start, length] = [i, run];
    i += run;
  }
  if (start < 0) return groups.join(':');
  return `${groups.slice(0, start).join(':')}::${groups.slice(start + length).join(':')}`;
}

export function within(base: Address, prefix: number, address: Address): boolean {
  const shift = BigInt(base.bits - prefix);
  return base.bits === address.bits && base.value >> shift === address.value >> shift;
}
export function masked(address: Address, prefix: number): Address {
  const shift = BigInt(address.bits - prefix);
  return { ...address, value: (address.value >> shift) << shift };
}
