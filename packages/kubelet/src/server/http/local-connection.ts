import { Duplex } from 'node:stream';

type Done = (error?: Error | null) => void;

/** The buffer size of each direction. Bytes. */
const highWaterMark = 256 * 1024;

/** How long the server may leave data of a closed client unread before the connection is destroyed. Milliseconds. */
const lingerMs = 2_000;

const broken = (): Error => Object.assign(new Error('the other end is closed'), { code: 'EPIPE' });

/**
 * One end of an in-process connection. As with a socket, each direction ends separately: data that was sent before an end closed can still be
 * read, and later writes fail with EPIPE. Chunks are not copied, so the writer must not change them after the write.
 */
export class LocalConnection extends Duplex {
  #other: LocalConnection | undefined;
  /** The callback of the other end's pending write. It is called when this end has read the data. */
  #pendingWrite: Done | undefined;
  #ended = false;
  readonly #lingerMs: number | undefined;

  private constructor(lingerTimeoutMs?: number) {
    super({ highWaterMark, allowHalfOpen: true });
    this.#lingerMs = lingerTimeoutMs;
  }

  /** Creates a connection and returns the client's end and the server's end. */
  static pair(lingerTimeoutMs = lingerMs): readonly [LocalConnection, LocalConnection] {
    const [client, server] = [new LocalConnection(), new LocalConnection(lingerTimeoutMs)];
    client.#other = server;
    server.#other = client;
    return [client, server];
  }

  override _read(): void {
    const done = this.#pendingWrite;
    this.#pendingWrite = undefined;
    done?.();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#deliver([chunk], done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: Done): void {
    this.#deliver(
      chunks.map(({ chunk }) => chunk),
      done,
    );
  }

  override _final(done: Done): void {
    if (this.#other !== undefined) this.#other.#end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const [other, pendingWrite] = [this.#other, this.#pendingWrite];
    this.#other = undefined;
    this.#pendingWrite = undefined;
    pendingWrite?.(broken());
    if (other !== undefined) other.#otherDestroyed();
    done(error);
  }

  #deliver(chunks: readonly Buffer[], done: Done): void {
    const other = this.#other;
    if (other === undefined || other.destroyed) {
      done(broken());
      return;
    }
    let acceptsMore = true;
    for (const chunk of chunks) if (chunk.length > 0) acceptsMore = other.push(chunk);
    if (acceptsMore) done();
    else other.#pendingWrite = done;
  }

  #end(): void {
    if (this.#ended || this.destroyed) return;
    this.#ended = true;
    this.push(null);
  }

  /** Handles the destruction of the other end. Data that the other end has sent can still be read. */
  #otherDestroyed(): void {
    if (this.destroyed) return;
    this.#other = undefined;
    this.#end();
    if (this.readableEnded) {
      this.destroy();
      return;
    }
    this.once('end', () => this.destroy());
    if (this.#lingerMs === undefined) return;
    const timer = setTimeout(() => this.destroy(), this.#lingerMs);
    this.once('close', () => clearTimeout(timer));
  }
}
