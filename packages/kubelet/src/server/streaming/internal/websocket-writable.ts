import { Writable } from 'node:stream';
import type { WebSocket } from 'ws';

type Done = (error?: Error | null) => void;

/** The number of buffered bytes above which writers have to wait. */
const highWaterMark = 256 * 1024;

/** Sends one message. Calls `done` when more can be written: immediately while little is buffered, otherwise when it is sent. */
export function sendMessage(socket: WebSocket, message: Buffer | string, done: Done): void {
  if (socket.bufferedAmount < highWaterMark && socket.readyState === socket.OPEN) {
    socket.send(message);
    done();
  } else {
    socket.send(message, (error) => done(error ?? null));
  }
}

/** Sends output as messages: chunks of one turn of the event loop share a message. */
export class WebSocketWritable extends Writable {
  readonly #socket: WebSocket;
  readonly #ready: Promise<void>;
  readonly #encode: (bytes: readonly Buffer[]) => Buffer | string;
  #chunks: Buffer[] = [];
  #length = 0;
  #waiting: Done | undefined;

  /** @param ready nothing is sent before it resolves */
  constructor(socket: WebSocket, ready: Promise<void>, encode: (bytes: readonly Buffer[]) => Buffer | string) {
    super({ highWaterMark });
    this.#socket = socket;
    this.#ready = ready;
    this.#encode = encode;
    this.on('error', () => undefined); // writers get errors through the callback
  }

  /** Passes buffered chunks to the socket. */
  flush(): void {
    const [chunks, waiting] = [this.#chunks, this.#waiting];
    this.#chunks = [];
    this.#length = 0;
    this.#waiting = undefined;
    if (chunks.length > 0) sendMessage(this.#socket, this.#encode(chunks), waiting ?? (() => undefined));
  }

  override _construct(done: Done): void {
    void this.#ready.then(() => done());
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    if (this.#chunks.length === 0) setImmediate(() => this.flush());
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length < highWaterMark) done();
    else this.#waiting = done;
  }

  override _final(done: Done): void {
    this.flush();
    done();
  }
}
