export const noError = 0;
export const noSuchName = 3;
export const refusedCode = 5;
const headerBytes = 12;
const datagramBytes = 512;
const secondsToLive = 5;

export interface Question {
  /** The name as queried, without the trailing dot. */
  readonly name: string;
  readonly type: number;
  /** The encoded question, which the response repeats. */
  readonly bytes: Buffer;
}

/** Parses a query with one question (RFC 1035, 4.1). Returns undefined for messages that get no response. */
export function parseQuestion(message: Buffer): Question | undefined {
  if (message.length < headerBytes || message.readUInt16BE(4) !== 1) return undefined;
  const flags = message.readUInt16BE(2);
  if ((flags & 0x8000) !== 0 || (flags & 0x7800) !== 0) return undefined; // a response, or another opcode
  const labels: string[] = [];
  let at = headerBytes;
  for (;;) {
    const length = message[at];
    // compression pointers are not valid in a question
    if (length === undefined || length > 63 || at - headerBytes > 254) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.toString('latin1', at, at + length));
    at += length;
  }
  if (at + 4 > message.length) return undefined;
  return { name: labels.join('.'), type: message.readUInt16BE(at), bytes: message.subarray(headerBytes, at + 4) };
}

/** Encodes a response with address records. If they exceed a datagram, sets the truncation bit and leaves out the rest. */
export function answer(query: Buffer, { type, bytes }: Question, code: number, addresses: readonly Buffer[]): Buffer {
  const records: Buffer[] = [];
  let size = headerBytes + bytes.length;
  for (const address of addresses) {
    const record = Buffer.alloc(12 + address.length);
    record.writeUInt16BE(0xc000 | headerBytes, 0); // pointer to the name in the question
    record.writeUInt16BE(type, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(secondsToLive, 6);
    record.writeUInt16BE(address.length, 10);
    address.copy(record, 12);
    if (size + record.length > datagramBytes) break;
    size += record.length;
    records.push(record);
  }
  const header = Buffer.alloc(headerBytes);
  query.copy(header, 0, 0, 2);
  const truncated = records.length < addresses.length ? 0x0200 : 0;
  header.writeUInt16BE(0x8400 | truncated | (query.readUInt16BE(2) & 0x0100) | code, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, bytes, ...records]);
}
