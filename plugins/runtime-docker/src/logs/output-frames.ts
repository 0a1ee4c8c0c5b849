/** A part of a container's output. Without a terminal, the engine sends an eight-byte header before each part. */
export interface OutputFrame {
  readonly stream: 'stdout' | 'stderr';
  readonly payload: Buffer;
}

const headerBytes = 8;

/** Splits a multiplexed stream into its frames. With `whole`, yields only complete frames; otherwise also the parts of a frame as they arrive. */
export class FrameReader {
  readonly #whole: boolean;
  #pending: Buffer = Buffer.alloc(0);
  #stream: OutputFrame['stream'] = 'stdout';
  /** The remaining bytes of the current frame. */
  #remaining = 0;

  constructor(whole: boolean) {
    this.#whole = whole;
  }

  *push(chunk: Buffer): Generator<OutputFrame> {
    let bytes = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    for (;;) {
      if (this.#remaining === 0) {
        if (bytes.length < headerBytes) break;
        this.#stream = bytes[0] === 2 ? 'stderr' : 'stdout';
        this.#remaining = bytes.readUInt32BE(4);
        bytes = bytes.subarray(headerBytes);
        if (this.#remaining === 0) continue;
      }
      const size = Math.min(bytes.length, this.#remaining);
      if (size === 0 || (this.#whole && size < this.#remaining)) break;
      yield { stream: this.#stream, payload: bytes.subarray(0, size) };
      this.#remaining -= size;
      bytes = bytes.subarray(size);
    }
    this.#pending = bytes;
  }
}
