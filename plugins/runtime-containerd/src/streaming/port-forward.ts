import { Duplex } from 'node:stream';
import { RuntimeError } from '@oarlock/spi/runtime';
import { toRuntimeError, type SessionOptions } from './remote-command.ts';
import { dialSpdy } from '@oarlock/spdy/dial';
import type { SpdyConnection } from '@oarlock/spdy/connection';
import type { SpdyStream } from '@oarlock/spdy/stream';

const protocol = 'portforward.k8s.io';
const maxErrorLength = 16 * 1024;
const highWaterMark = 256 * 1024;

/**
 * Opens a connection to a port of a sandbox at a streaming URL of the runtime. Both directions close independently. If the runtime cannot connect or
 * the connection breaks, the stream fails with a RuntimeError.
 */
export async function portForward(url: string, port: number, { signal, idleMs }: SessionOptions): Promise<Duplex> {
  const { connection } = await dialSpdy(url, { protocols: [protocol], idleMs, ...(signal && { signal }) }).catch(toRuntimeError);
  try {
    const headers = { port: `${port}`, requestID: '0' };
    const error = connection.open({ ...headers, streamType: 'error' });
    const data = connection.open({ ...headers, streamType: 'data' });
    await Promise.all([error.replied, data.replied]);
    // the client sends nothing on the error stream
    error.end();
    return new ForwardedPort(connection, { data, error, signal });
  } catch (error) {
    connection.destroy();
    return toRuntimeError(error);
  }
}

/** The two streams of a forwarded connection. */
export interface ForwardedPortOptions {
  readonly data: SpdyStream;
  readonly error: SpdyStream;
  readonly signal: AbortSignal | undefined;
}

class ForwardedPort extends Duplex {
  readonly #connection: SpdyConnection;
  readonly #data: SpdyStream;

  constructor(connection: SpdyConnection, { data, error, signal }: ForwardedPortOptions) {
    super({ allowHalfOpen: true, highWaterMark });
    this.#connection = connection;
    this.#data = data;
    const failure = readErrorStream(error);
    data.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) data.pause();
    });
    data.once('end', () => {
      // the runtime reports a failure on the error stream, at about the time when the data stream ends
      void failure.then((message) => {
        if (message !== '') this.destroy(new RuntimeError('Unavailable', message));
        else if (data.ended === 'cut') this.destroy(new RuntimeError('Unavailable', 'the connection to the runtime broke'));
        else this.push(null);
      });
    });
    data.once('close', () => {
      if (!data.ended) this.destroy();
    });
    if (signal) {
      const abort = () => this.destroy(signal.reason as Error);
      signal.addEventListener('abort', abort, { once: true });
      this.once('close', () => signal.removeEventListener('abort', abort));
    }
    void connection.closed.then(() => {
      if (!data.ended) this.destroy(new RuntimeError('Unavailable', 'the connection to the runtime broke'));
    });
  }

  override _read(): void {
    this.#data.resume();
  }
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#data.write(chunk, done);
  }
  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#data.cork();
    chunks.forEach(({ chunk }, index) => {
      if (index === chunks.length - 1) this.#data.write(chunk, done);
      else this.#data.write(chunk);
    });
    this.#data.uncork();
  }
  override _final(done: (error?: Error | null) => void): void {
    this.#data.end(done);
  }
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection.destroy();
    done(error);
  }
}

/** Returns the error message of the runtime; empty if the runtime could connect, or if the connection to it broke, which the data stream reports. */
function readErrorStream(error: SpdyStream): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    error.on('data', (chunk: Buffer) => {
      if (text.length < maxErrorLength) text += chunk.toString('utf8');
    });
    error.once('end', () => resolve(text));
    error.once('close', () => resolve(text));
  });
}
