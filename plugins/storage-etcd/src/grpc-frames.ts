import { GrpcError } from './grpc-error.ts';

/** One byte that says "not compressed", four bytes of length, the message. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(message.length + 5);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, 5);
  return framed;
}

/** More than any answer of etcd holds: ranges are read in pages, watches in fragments. */
const longestMessage = 2 ** 30;

/** Puts the messages of a stream together again. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Bytes of the next frame; 5 while not even its length is here. */
  #needed = 5;

  /** Calls `take` with each message that is complete. @throws GrpcError for what is not a frame */
  push(chunk: Buffer, take: (message: Buffer) => void): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    while (this.#bytes >= this.#needed) {
      const joined = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#bytes);
      this.#chunks = [joined];
      if (joined[0] !== 0) throw new GrpcError('Internal', 'a compressed message came, which was not asked for');
      const length = joined.readUInt32BE(1);
      if (length > longestMessage) throw new GrpcError('ResourceExhausted', `a message of ${length} bytes came`);
      this.#needed = 5 + length;
      if (joined.length < this.#needed) return;
      const rest = joined.subarray(this.#needed);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#bytes = rest.length;
      this.#needed = 5;
      take(joined.subarray(5, 5 + length));
    }
  }
}
