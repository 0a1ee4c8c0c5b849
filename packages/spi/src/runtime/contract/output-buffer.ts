import { PassThrough, type Writable } from 'node:stream';

/** A writable stream that stores its input. */
export class OutputBuffer {
  readonly #chunks: Buffer[] = [];
  readonly stream: Writable;
  #waiters: (() => void)[] = [];
  constructor() {
    const through = new PassThrough();
    through.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      for (const wake of this.#waiters.splice(0)) wake();
    });
    this.stream = through;
  }
  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
  get text(): string {
    return this.bytes.toString('utf8');
  }
  /** Resolves at the next input. */
  more(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }
  async until(holds: (text: string) => boolean): Promise<string> {
    while (!holds(this.text)) await this.more();
    return this.text;
  }
}
