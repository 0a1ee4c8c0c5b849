import { Duplex } from 'node:stream';

type Done = (error?: Error | null) => void;

/** Bytes that wait at one end before no more is taken from the other. */
const highWaterMark = 256 * 1024;

/** So long the server's end may leave unread what a client sent that is gone: who does not read does not notice. Milliseconds. */
const lingerMs = 2_000;

const broken = (): Error => Object.assign(new Error('the other end is gone'), { code: 'EPIPE' });

/**
 * One end of a connection within the process. As with a socket each direction ends by itself; what was sent before an end went away is still
 * read, and what is written after that fails with EPIPE. Chunks are handed over, not copied: who wrote them must not change them.
 */
export class LocalConnection extends Duplex {
  #other: LocalConnection | undefined;
  /** Of the other end: its write, until this end has read. */
  #owed: Done | undefined;
  #ended = false;
  readonly #patienceMs: number | undefined;

  private constructor(patienceMs?: number) {
    super({ highWaterMark, allowHalfOpen: true });
    this.#patienceMs = patienceMs;
  }

  /** The client's end and the server's. */
  static pair(patienceMs = lingerMs): readonly [LocalConnection, LocalConnection] {
    const [client, server] = [new LocalConnection(), new LocalConnection(patienceMs)];
    client.#other = server;
    server.#other = client;
    return [client, server];
  }

  override _read(): void {
    const done = this.#owed;
    this.#owed = undefined;
    done?.();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#hand([chunk], done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: Done): void {
    this.#hand(
      chunks.map(({ chunk }) => chunk),
      done,
    );
  }

  override _final(done: Done): void {
    if (this.#other !== undefined) this.#other.#end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const [other, owed] = [this.#other, this.#owed];
    this.#other = undefined;
    this.#owed = undefined;
    owed?.(broken());
    if (other !== undefined) other.#left();
    done(error);
  }

  #hand(chunks: readonly Buffer[], done: Done): void {
    const other = this.#other;
    if (other === undefined || other.destroyed) {
      done(broken());
      return;
    }
    let wantsMore = true;
    for (const chunk of chunks) if (chunk.length > 0) wantsMore = other.push(chunk);
    if (wantsMore) done();
    else other.#owed = done;
  }

  #end(): void {
    if (this.#ended || this.destroyed) return;
    this.#ended = true;
    this.push(null);
  }

  /** The other end is gone altogether: what it sent is left to be read. */
  #left(): void {
    if (this.destroyed) return;
    this.#other = undefined;
    this.#end();
    if (this.readableEnded) {
      this.destroy();
      return;
    }
    this.once('end', () => this.destroy());
    if (this.#patienceMs === undefined) return;
    const timer = setTimeout(() => this.destroy(), this.#patienceMs);
    this.once('close', () => clearTimeout(timer));
  }
}
