import { BlockList, isIPv4 } from 'node:net';

/** Converts an IP address to its 4 or 16 bytes in network order. @throws for invalid input */
export function addressBytes(ip: string): Buffer {
  if (isIPv4(ip)) return Buffer.from(ip.split('.').map(Number));
  const list = new BlockList();
  list.addAddress(ip, 'ipv6'); // throws if the address is invalid
  const [text = '', tail] = withoutDots(ip).split('%')[0]?.split('::') ?? [];
  const words = (part: string | undefined) =>
    part === undefined || part === '' ? [] : part.split(':').map((word) => Number.parseInt(word, 16));
  const [head, end] = [words(text), words(tail)];
  const all = [...head, ...Array<number>(8 - head.length - end.length).fill(0), ...end];
  const bytes = Buffer.alloc(16);
  for (const [index, word] of all.entries()) bytes.writeUInt16BE(word, index * 2);
  return bytes;
}

/** Rewrites the dotted last part of an address such as `::ffff:10.0.0.1` in hex. */
function withoutDots(ip: string): string {
  const last = ip.slice(ip.lastIndexOf(':') + 1);
  if (!isIPv4(last)) return ip;
  const bytes = Buffer.from(last.split('.').map(Number));
  return `${ip.slice(0, -last.length)}${bytes.readUInt16BE(0).toString(16)}:${bytes.readUInt16BE(2).toString(16)}`;
}
