import { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { sendMessage } from './websocket-writable.ts';

const highWaterMark = 256 * 1024;
/** The maximum size of a message in bytes, because receivers allocate one buffer per message. */
const largestMessage = 256 * 1024;

/**
 * A byte stream in each direction over the messages of a WebSocket. Message boundaries have no meaning: buffered chunks are sent as one message.
 * There is no half-close: `end` closes the WebSocket.
 */
export class WebSocketDuplex extends Duplex {
  readonly #socket: WebSocket;

  constructor(socket: WebSocket) {
    super({ highWaterMark });
    this.#socket = socket;
    socket.on('message', (message: Buffer) => {
      if (!this.push(message)) socket.pause();
    });
    socket.on('error', (error) => this.destroy(error));
    socket.once('close', () => this.push(null));
    this.once('end', () => this.destroy());
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (chunk.length === 0) done();
    else sendMessage(this.#socket, chunk, done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    const messages = batches(chunks.map(({ chunk }) => chunk));
    const last = messages.pop();
    for (const message of messages) this.#socket.send(message);
    if (last === undefined) done();
    else sendMessage(this.#socket, last, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#socket.readyState === this.#socket.CLOSED) {
      done();
      return;
    }
    this.#socket.once('close', () => done());
    this.#socket.close(1000);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.terminate();
    done(error);
  }
}

function batches(chunks: readonly Buffer[]): Buffer[] {
  const all: Buffer[] = [];
  let batch: Buffer[] = [];
  let length = 0;
  const close = () => {
    if (length > 0) all.push(Buffer.concat(batch, length));
    batch = [];
    length = 0;
  };
  for (const chunk of chunks) {
    if (length + chunk.length > largestMessage) close();
    batch.push(chunk);
    length += chunk.length;
  }
  close();
  return all;
}
