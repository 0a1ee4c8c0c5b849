/** One piece of an output: the engine puts eight bytes before each, unless there is a terminal. */
export interface OutputFrame {
  readonly stream: 'stdout' | 'stderr';
  readonly payload: Buffer;
}

const headerBytes = 8;

/** Cuts a multiplexed stream into its frames. `whole`: a frame comes in one piece; otherwise as much of it as is there. */
export class FrameReader {
  readonly #whole: boolean;
  #kept: Buffer = Buffer.alloc(0);
  #stream: OutputFrame['stream'] = 'stdout';
  /** Of the frame that was begun. */
  #left = 0;

  constructor(whole: boolean) {
    this.#whole = whole;
  }

  *push(chunk: Buffer): Generator<OutputFrame> {
    let bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    for (;;) {
      if (this.#left === 0) {
        if (bytes.length < headerBytes) break;
        this.#stream = bytes[0] === 2 ? 'stderr' : 'stdout';
        this.#left = bytes.readUInt32BE(4);
        bytes = bytes.subarray(headerBytes);
        if (this.#left === 0) continue;
      }
      const size = Math.min(bytes.length, this.#left);
      if (size === 0 || (this.#whole && size < this.#left)) break;
      yield { stream: this.#stream, payload: bytes.subarray(0, size) };
      this.#left -= size;
      bytes = bytes.subarray(size);
    }
    this.#kept = bytes;
  }
}
