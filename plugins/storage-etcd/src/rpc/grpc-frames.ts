import { GrpcError } from '@oarlock/grpc/grpc-error';

/** Encodes a gRPC frame: a byte that means "not compressed", four bytes of length, the message. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(message.length + 5);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, 5);
  return framed;
}

/** Exceeds every response of etcd, because ranges are read in pages and watches in fragments. */
const longestMessage = 2 ** 30;

/** Reassembles the messages of a stream. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Size of the next frame in bytes; 5 while its length is unknown. */
  #needed = 5;

  /** Calls `take` with each complete message. @throws GrpcError for an invalid frame */
  push(chunk: Buffer, take: (message: Buffer) => void): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    while (this.#bytes >= this.#needed) {
      const joined = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#bytes);
      this.#chunks = [joined];
      if (joined[0] !== 0) throw new GrpcError('INTERNAL', 'the server sent a compressed message');
      const length = joined.readUInt32BE(1);
      if (length > longestMessage) throw new GrpcError('RESOURCE_EXHAUSTED', `the server sent a message of ${length} bytes`);
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
