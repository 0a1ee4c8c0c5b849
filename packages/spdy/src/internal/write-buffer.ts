import type { Duplex } from 'node:stream';

type Done = (error?: Error | null) => void;

/** Bytes that may wait for the socket before `whenDrained` delays its callers. */
const highWaterMark = 256 * 1024;
const nothing = Buffer.alloc(0);

/** Buffers writes to a socket: the writes of one turn of the event loop are sent in one piece. Reports when more may be written. */
export class WriteBuffer {
  readonly #socket: Duplex;
  readonly #onSend: (() => void) | undefined;
  #corked = false;
  #closed = false;

  /** @param onSend is called for each piece that is sent */
  constructor(socket: Duplex, onSend?: () => void) {
    this.#socket = socket;
    this.#onSend = onSend;
  }

  /**
   * Sends bytes; `sent` is called when the socket has written them. After the end nothing is sent and no error is reported: the streams end
   * as well.
   */
  send(bytes: Buffer, sent?: Done): void {
    if (this.#closed || !this.#socket.writable) return;
    this.#onSend?.();
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      setImmediate(() => this.flush());
    }
    if (sent) this.#socket.write(bytes, sent);
    else this.#socket.write(bytes);
  }

  /** Calls `done` immediately if few bytes are buffered, otherwise when all bytes so far are written. */
  whenDrained(done: Done): void {
    if (this.#closed || !this.#socket.writable) return;
    if (this.#socket.writableLength < highWaterMark) done();
    else this.send(nothing, done);
  }

  flush(): void {
    if (!this.#corked) return;
    this.#corked = false;
    this.#socket.uncork();
  }

  close(): void {
    this.#closed = true;
  }
}
