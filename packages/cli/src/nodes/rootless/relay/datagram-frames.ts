const lengthBytes = 2;

/** Returns a datagram with its length, for a stream. */
export function frameDatagram(datagram: Buffer): Buffer {
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt16BE(datagram.length);
  return Buffer.concat([length, datagram]);
}

/** Returns a function that receives chunks of a stream, and calls `onDatagram` for each datagram. Keeps at most one incomplete datagram. */
export function datagramReader(onDatagram: (datagram: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= lengthBytes) {
      const end = lengthBytes + rest.readUInt16BE(0);
      if (rest.length < end) return;
      onDatagram(rest.subarray(lengthBytes, end));
      rest = rest.subarray(end);
    }
  };
}
