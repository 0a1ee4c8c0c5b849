import { isIPv4, isIPv6 } from 'node:net';

export type IPFamily = 'IPv4' | 'IPv6';

/** Returns an address as a number, or undefined if the text is not an address. */
export function parseIPNumber(text: string): bigint | undefined {
  if (isIPv4(text)) return text.split('.').reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const lastColon = text.lastIndexOf(':');
  const tail = text.slice(lastColon + 1);
  const v4 = isIPv4(tail) ? (parseIPNumber(tail) ?? 0n) : undefined;
  const plain = v4 === undefined ? text : `${text.slice(0, lastColon + 1)}${(v4 >> 16n).toString(16)}:${(v4 & 0xffffn).toString(16)}`;
  const [head = '', rest] = plain.split('::');
  const words = (part: string) => (part === '' ? [] : part.split(':'));
  const [left, right] = [words(head), words(rest ?? '')];
  const zeros = rest === undefined ? [] : Array.from({ length: 8 - left.length - right.length }, () => '0');
  return [...left, ...zeros, ...right].reduce((value, word) => (value << 16n) | BigInt(`0x${word}`), 0n);
}

export function familyOf(address: string): IPFamily | undefined {
  return isIPv4(address) ? 'IPv4' : isIPv6(address) ? 'IPv6' : undefined;
}

/** Formats an address; IPv6 by RFC 5952. */
export function formatIPNumber(value: bigint, family: IPFamily): string {
  if (family === 'IPv4') return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 0xffn)).join('.');
  const words = Array.from({ length: 8 }, (_, i) => ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));
  let [from, length] = [0, 0];
  for (let i = 0; i < 8; i++) {
    let run = 0;
    while (words[i + run] === '0') run++;
    if (run > length) [from, length] = [i, run];
  }
  return length < 2 ? words.join(':') : `${words.slice(0, from).join(':')}::${words.slice(from + length).join(':')}`;
}
