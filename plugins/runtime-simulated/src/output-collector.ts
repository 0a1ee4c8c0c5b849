import { Writable } from 'node:stream';

/** Collects the output of a command and discards everything beyond a limit. */
export class OutputCollector extends Writable {
  readonly #limit: number;
  readonly #chunks: Buffer[] = [];
  #size = 0;

  constructor(limit: number) {
    super();
    this.#limit = limit;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const rest = chunk.subarray(0, this.#limit - this.#size);
    this.#size += rest.length;
    if (rest.length > 0) this.#chunks.push(rest);
    done();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}
