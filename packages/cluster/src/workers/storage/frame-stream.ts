import type { Duplex } from 'node:stream';

/** A message with the number of the call or watch that it belongs to. */
export interface Frame {
  readonly kind: number;
  readonly id: number;
  readonly payload: Buffer;
}

export interface FrameStreamOptions {
  readonly stream: Duplex;
  /** An error that it throws, because the frame is malformed, ends the stream. */
  onFrame(frame: Frame): void;
  /** Called once, when no further frame will arrive. */
  onClose(error: Error | undefined): void;
}

/** Length of the payload, kind and id. */
const headerBytes = 9;
/** The largest payload: the largest value of a storage plugin, with its previous version, and a page of others. */
export const maxPayloadBytes = 128 * 1024 * 1024;

/** Frames over a byte stream between two processes. The frames that one turn of the event loop sends are written together. */
export class FrameStream {
  readonly #options: FrameStreamOptions;
  #chunks: Buffer[] = [];
  #received = 0;
  /** The number of bytes that complete the next frame or its header. */
  #needed = headerBytes;
  #isCorked = false;
  #isClosed = false;
  #failure: Error | undefined;
  #drained: Promise<void> | undefined;

  constructor(options: FrameStreamOptions) {
    this.#options = options;
    const { stream } = options;
    stream.on('data', (chunk: Buffer) => this.#receive(chunk));
    stream.on('error', (error: Error) => {
      this.#failure ??= error;
    });
    stream.once('end', () => stream.destroy());
    stream.once('close', () => this.#close());
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Returns false if the receiver is slower than the sender: `drained` then resolves when it has caught up. */
  get isWritable(): boolean {
    return !this.#options.stream.writableNeedDrain;
  }

  /** @throws RangeError if the payload is larger than `maxPayloadBytes` */
  send(kind: number, id: number, parts: readonly Uint8Array[] = []): void {
    if (this.#isClosed) return;
    const { stream } = this.#options;
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    if (length > maxPayloadBytes) throw new RangeError(`a message of ${length} bytes exceeds ${maxPayloadBytes} bytes`);
    if (!this.#isCorked) {
      this.#isCorked = true;
      stream.cork();
      setImmediate(() => {
        this.#isCorked = false;
        stream.uncork();
      });
    }
    const header = Buffer.allocUnsafe(headerBytes);
    header.writeUInt32LE(length, 0);
    header[4] = kind;
    header.writeUInt32LE(id, 5);
    stream.write(header);
    for (const part of parts) stream.write(part);
  }

  /** Resolves when the receiver has caught up, or the stream is closed. */
  drained(): Promise<void> {
    if (this.isWritable || this.#isClosed) return Promise.resolve();
    const { stream } = this.#options;
    this.#drained ??= new Promise((resolve) => {
      const done = () => {
        stream.off('drain', done);
        stream.off('close', done);
        this.#drained = undefined;
        resolve();
      };
      stream.on('drain', done);
      stream.on('close', done);
    });
    return this.#drained;
  }

  pause(): void {
    this.#options.stream.pause();
  }

  resume(): void {
    this.#options.stream.resume();
  }

  close(): void {
    this.#options.stream.destroy();
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#received += chunk.length;
    if (this.#received < this.#needed) return;
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    let at = 0;
    for (;;) {
      this.#needed = headerBytes;
      if (bytes.length - at < headerBytes) break;
      const length = bytes.readUInt32LE(at);
      if (length > maxPayloadBytes) {
        this.#options.stream.destroy(new RangeError(`a message of ${length} bytes exceeds ${maxPayloadBytes} bytes`));
        return;
      }
      this.#needed = headerBytes + length;
      if (bytes.length - at < this.#needed) break;
      const end = at + this.#needed;
      const frame = { kind: bytes[at + 4] as number, id: bytes.readUInt32LE(at + 5), payload: bytes.subarray(at + headerBytes, end) };
      try {
        this.#options.onFrame(frame);
      } catch (cause) {
        this.#options.stream.destroy(new Error(`a malformed message of kind ${frame.kind}`, { cause }));
        return;
      }
      at = end;
    }
    const rest = bytes.subarray(at);
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#received = rest.length;
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.onClose(this.#failure);
  }
}
