const pointerBits = 0xc000;
const headerBytes = 12;
/** The largest offset that a compression pointer can contain. */
const farthest = 0x3fff;

/**
 * The record types whose data contains compressible names (RFC 1035; RFC 3597, 4 forbids compression for newer types), with the number of bytes
 * before the first name.
 */
const namesIn: ReadonlyMap<number, { readonly before: number; readonly names: number }> = new Map([
  [2, { before: 0, names: 1 }], // NS
  [5, { before: 0, names: 1 }], // CNAME
  [6, { before: 0, names: 2 }], // SOA
  [12, { before: 0, names: 1 }], // PTR
  [15, { before: 2, names: 1 }], // MX
]);

/**
 * Compresses a message by replacing repeated names with pointers (RFC 1035, 4.1.4). The message must not contain pointers; messages of `dns-packet`
 * do not.
 */
export function compressNames(message: Buffer): Buffer {
  const known = new Map<string, number>();
  const out = Buffer.alloc(message.length);
  message.copy(out, 0, 0, headerBytes);
  let [from, to] = [headerBytes, headerBytes];

  const bytes = (count: number) => {
    message.copy(out, to, from, from + count);
    from += count;
    to += count;
  };
  const name = () => {
    const start = from;
    let end = from;
    while (message[end] !== 0) end += (message[end] ?? 0) + 1;
    end += 1;
    for (let at = start; message[at] !== 0; at += (message[at] ?? 0) + 1) {
      const rest = message.toString('latin1', at, end);
      const place = known.get(rest);
      if (place !== undefined) {
        out.writeUInt16BE(pointerBits | place, to);
        to += 2;
        from = end;
        return;
      }
      if (to <= farthest) known.set(rest, to);
      const size = (message[at] ?? 0) + 1;
      message.copy(out, to, at, at + size);
      to += size;
    }
    out[to++] = 0;
    from = end;
  };

  for (let left = message.readUInt16BE(4); left > 0; left--) {
    name();
    bytes(4);
  }
  for (let left = message.readUInt16BE(6) + message.readUInt16BE(8) + message.readUInt16BE(10); left > 0; left--) {
    name();
    const type = message.readUInt16BE(from);
    const length = message.readUInt16BE(from + 8);
    bytes(10);
    const lengthAt = to - 2;
    const end = from + length;
    const inside = namesIn.get(type);
    if (inside) {
      bytes(inside.before);
      for (let names = inside.names; names > 0; names--) name();
    }
    bytes(end - from);
    out.writeUInt16BE(to - lengthAt - 2, lengthAt);
  }
  return out.subarray(0, to);
}
