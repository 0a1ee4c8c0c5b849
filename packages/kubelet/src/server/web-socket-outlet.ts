import { Writable } from 'node:stream';
import type { WebSocket } from 'ws';

type Done = (error?: Error | null) => void;

/** Bytes that may wait for the client before nobody is asked for more. */
const enough = 256 * 1024;

/** Sends one message. Calls `done` when more may come: at once while little waits, else when the message is gone. */
export function sendMessage(socket: WebSocket, message: Buffer | string, done: Done): void {
  if (socket.bufferedAmount < enough && socket.readyState === socket.OPEN) {
    socket.send(message);
    done();
  } else {
    socket.send(message, (error) => done(error ?? null));
  }
}

/** Where output goes that is sent as messages: what comes in one turn of the event loop goes out in one. */
export class WebSocketOutlet extends Writable {
  readonly #socket: WebSocket;
  readonly #ready: Promise<void>;
  readonly #encode: (bytes: readonly Buffer[]) => Buffer | string;
  #chunks: Buffer[] = [];
  #length = 0;
  #waiting: Done | undefined;

  /** @param ready nothing is sent before it resolves */
  constructor(socket: WebSocket, ready: Promise<void>, encode: (bytes: readonly Buffer[]) => Buffer | string) {
    super({ highWaterMark: enough });
    this.#socket = socket;
    this.#ready = ready;
    this.#encode = encode;
    this.on('error', () => undefined); // who writes is told by the callback
  }

  /** What was written is given to the socket. */
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
    if (this.#length < enough) done();
    else this.#waiting = done;
  }

  override _final(done: Done): void {
    this.flush();
    done();
  }
}
