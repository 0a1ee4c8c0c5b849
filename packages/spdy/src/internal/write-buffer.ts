import type { Duplex } from 'node:stream';

type Done = (error?: Error | null) => void;

/** Bytes that may wait for the socket before nobody is asked for more. */
const highWaterMark = 256 * 1024;
const nothing = Buffer.alloc(0);

/** What goes out over a socket: all of one turn of the event loop in one piece, and word of when there is room for more. */
export class WriteBuffer {
  readonly #socket: Duplex;
  #corked = false;
  #closed = false;

  constructor(socket: Duplex) {
    this.#socket = socket;
  }

  /** `sent`: the socket has let go of it. After the end nothing is sent, and nobody hears of it: the streams' own end is near. */
  send(bytes: Buffer, sent?: Done): void {
    if (this.#closed || !this.#socket.writable) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      setImmediate(() => this.flush());
    }
    if (sent) this.#socket.write(bytes, sent);
    else this.#socket.write(bytes);
  }

  /** Calls at once while little waits, else when all that was sent before is gone. */
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
