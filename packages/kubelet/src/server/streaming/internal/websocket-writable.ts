import { Writable } from 'node:stream';
import type { WebSocket } from 'ws';

type Done = (error?: Error | null) => void;

/** The number of buffered bytes above which writers wait. */
const highWaterMark = 256 * 1024;

/** Sends one message. Calls `done` when the writer may continue: immediately while few bytes are buffered, otherwise when the message is sent. */
export function sendMessage(socket: WebSocket, message: Buffer | string, done: Done): void {
  if (socket.bufferedAmount < highWaterMark && socket.readyState === socket.OPEN) {
    socket.send(message);
    done();
  } else {
    socket.send(message, (error) => done(error ?? null));
  }
}

/** A stream that sends its output as WebSocket messages. Chunks that are written in one turn of the event loop share a message. */
export class WebSocketWritable extends Writable {
  readonly #socket: WebSocket;
  readonly #ready: Promise<void>;
  readonly #encode: (bytes: readonly Buffer[]) => Buffer | string;
  #chunks: Buffer[] = [];
  #length = 0;
  #waiting: Done | undefined;

  /** @param ready the stream sends nothing before this promise resolves */
  constructor(socket: WebSocket, ready: Promise<void>, encode: (bytes: readonly Buffer[]) => Buffer | string) {
    super({ highWaterMark });
    this.#socket = socket;
    this.#ready = ready;
    this.#encode = encode;
    this.on('error', () => undefined); // writers get errors through the callback
  }

  /** Passes the buffered chunks to the WebSocket. */
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
