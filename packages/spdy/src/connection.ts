import type { Duplex } from 'node:stream';
import { dataHead, encodeFrame, FrameReader, resetStatus, settingInitialWindow, SpdyError, type Frame } from './frames.ts';
import { HeaderCompressor, HeaderDecompressor, type Headers } from './internal/header-block.ts';
import { WriteBuffer } from './internal/write-buffer.ts';
import { ChunkList } from './internal/chunk-list.ts';
import { keepReadingAfterWriteError } from './internal/write-errors.ts';
import { SpdyStream, type StreamTransport } from './stream.ts';
import { FlowControl } from './internal/flow-control.ts';

export interface SpdyOptions {
  /** The side of the connection. The client opens streams with odd ids, the server streams with even ids. */
  readonly role: 'client' | 'server';
  /**
   * Enables the flow control windows of SPDY/3.1. Must be off for peers with Go's implementation (kubectl, kubelets, containerd, CRI-O), which never
   * sends WINDOW_UPDATE and ignores windows: sending would stop after 64 KiB. Without windows only TCP slows down a sender, and a stream with a slow
   * consumer blocks all streams.
   */
  readonly flowControl?: boolean;
  /** Receives a stream that the peer opened: accept it with `reply` or end it with `reset`. Without a handler every stream is rejected. */
  readonly onStream?: (stream: SpdyStream) => void;
  /** Is called for each frame that was received or is sent. */
  readonly onFrame?: () => void;
  /** Maximum number of open streams of the peer. Default 256. */
  readonly maxStreams?: number;
  /** Maximum number of bytes of one stream that are buffered for a slow consumer. Default 256 KiB. */
  readonly highWaterMark?: number;
}

/** Maximum length of one DATA frame. Go readers allocate a buffer for each frame. */
const maxDataFrameBytes = 64 * 1024;

interface BlockedWrite {
  readonly pieces: ChunkList;
  readonly done: (error?: Error | null) => void;
}

/** One SPDY/3.1 connection over a socket. Both ends use this class. */
export class SpdyConnection {
  /** Resolves when the socket is closed, for any reason. */
  readonly closed: Promise<void>;
  readonly #socket: Duplex;
  readonly #outbox: WriteBuffer;
  readonly #options: SpdyOptions;
  readonly #reader = new FrameReader();
  readonly #compressor = new HeaderCompressor();
  readonly #decompressor = new HeaderDecompressor();
  readonly #streams = new Map<number, SpdyStream>();
  readonly #windows: FlowControl;
  readonly #waiting = new Map<SpdyStream, BlockedWrite>();
  readonly #behind = new Set<SpdyStream>();
  readonly #pings = new Map<number, () => void>();
  readonly #port: StreamTransport;
  #nextStream: number;
  #nextPing: number;
  #lastFromPeer = 0;
  #over = false;
  /** True if the peer accepts no more streams (GOAWAY). */
  #goingAway = false;

  /** `head`: bytes that were read from the socket after the upgrade. */
  constructor(socket: Duplex, options: SpdyOptions, head?: Buffer) {
    this.#socket = socket;
    this.#outbox = new WriteBuffer(socket, options.onFrame);
    this.#options = options;
    this.#windows = new FlowControl(options.flowControl === true, (stream, delta) =>
      this.#outbox.send(encodeFrame({ type: 'windowUpdate', stream, delta })),
    );
    this.#nextStream = options.role === 'client' ? 1 : 2;
    this.#nextPing = this.#nextStream;
    this.#port = {
      data: (stream, chunks, done) => this.#sendData(stream, new ChunkList(chunks), done),
      fin: (stream, done) => this.#outbox.send(dataHead(stream.id, 0, true), done),
      reply: (stream, headers) =>
        this.#outbox.send(encodeFrame({ type: 'synReply', stream: stream.id, fin: false, block: this.#compressor.compress(headers) })),
      reset: (stream, status) => this.#outbox.send(encodeFrame({ type: 'rstStream', stream: stream.id, status })),
      block: (stream) => {
        this.#behind.add(stream);
        if (!options.flowControl) socket.pause();
      },
      unblock: (stream) => this.#unblock(stream),
      forget: (stream) => this.#forget(stream),
    };
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#end();
        resolve();
      });
    });
    // disables Nagle's algorithm: a WINDOW_UPDATE or a key stroke must be sent immediately
    if ('setNoDelay' in socket && typeof socket.setNoDelay === 'function') socket.setNoDelay(true);
    keepReadingAfterWriteError(socket, () => {
      this.#goingAway = true;
      if (this.#over) socket.destroy(); // nothing is left to read, and the socket waits for its last write
    });
    socket.once('end', () => {
      this.#end();
      if (this.#goingAway) socket.destroy();
      else socket.end();
    });
    socket.on('error', () => this.#end());
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    if (head && head.length > 0) this.#receive(head);
  }

  /** Opens a stream. Its `replied` resolves when the peer accepts it; data may be sent before. */
  open(headers: Headers): SpdyStream {
    if (this.#over) throw new SpdyError('Closed', 'the connection is closed');
    const id = this.#nextStream;
    this.#nextStream += 2;
    const stream = this.#add(id, headers);
    this.#outbox.send(
      encodeFrame({
        type: 'synStream',
        stream: id,
        fin: false,
        unidirectional: false,
        priority: 0,
        block: this.#compressor.compress(headers),
      }),
    );
    return stream;
  }

  /** Resolves when the peer answers the ping. */
  ping(): Promise<void> {
    if (this.#over) return Promise.reject(new SpdyError('Closed', 'the connection is closed'));
    const id = this.#nextPing;
    this.#nextPing += 2;
    return new Promise((resolve, reject) => {
      this.#pings.set(id, resolve);
      void this.closed.then(() => reject(new SpdyError('Closed', 'the connection is closed')));
      this.#outbox.send(encodeFrame({ type: 'ping', id }));
    });
  }

  /** Sends GOAWAY, flushes pending writes, then closes. Streams that are still open end as `cut` (see `StreamEnd`). */
  async close(): Promise<void> {
    if (!this.#over) {
      this.#outbox.send(encodeFrame({ type: 'goAway', lastStream: this.#lastFromPeer, status: 0 }));
      this.#outbox.flush();
      this.#end();
      this.#socket.end();
      this.#socket.resume();
    }
    await this.closed;
  }

  destroy(error?: Error): void {
    this.#end();
    this.#socket.destroy();
    if (error) for (const stream of this.#streams.values()) stream.destroy(error);
  }

  #add(id: number, headers: Headers): SpdyStream {
    const stream = new SpdyStream(this.#port, { id, headers, highWaterMark: this.#options.highWaterMark ?? 256 * 1024 });
    this.#streams.set(id, stream);
    this.#windows.open(id);
    return stream;
  }

  #forget(stream: SpdyStream): void {
    this.#streams.delete(stream.id);
    this.#windows.forget(stream.id);
    this.#waiting.delete(stream);
    this.#unblock(stream);
  }

  #unblock(stream: SpdyStream): void {
    if (!this.#behind.delete(stream)) return;
    this.#windows.consumed(stream.id);
    if (!this.#options.flowControl && this.#behind.size === 0) this.#socket.resume();
  }

  /** Handles the end of the socket: every stream ends after its buffered data. */
  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#outbox.close();
    for (const stream of [...this.#streams.values()]) stream.handleEnd('cut');
    this.#waiting.clear();
  }

  /** Calls `done` when the stream may send more: immediately, unless a window or the socket's buffer is full. */
  #sendData(stream: SpdyStream, pieces: ChunkList, done: (error?: Error | null) => void): void {
    if (!this.#streams.has(stream.id)) return;
    while (pieces.length > 0) {
      const length = Math.min(this.#windows.sendable(stream.id), maxDataFrameBytes, pieces.length);
      if (length <= 0) {
        this.#waiting.set(stream, { pieces, done });
        return;
      }
      this.#windows.sent(stream.id, length);
      this.#outbox.send(dataHead(stream.id, length, false));
      for (const piece of pieces.take(length)) this.#outbox.send(piece);
    }
    this.#outbox.whenDrained(done);
  }

  #resumeSending(): void {
    for (const [stream, { pieces, done }] of [...this.#waiting]) {
      // streams that got no share of this session window are first in the next one
      if (this.#windows.sessionIsFull) return;
      this.#waiting.delete(stream);
      this.#sendData(stream, pieces, done);
    }
  }

  #receive(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.push(chunk)) {
        if (this.#over) return;
        this.#options.onFrame?.();
        this.#handle(frame);
      }
    } catch (error) {
      this.#outbox.send(encodeFrame({ type: 'goAway', lastStream: this.#lastFromPeer, status: 1 }));
      this.#outbox.flush();
      this.destroy(error as Error);
    }
  }

  #handle(frame: Frame): void {
    switch (frame.type) {
      case 'data':
        this.#data(frame.stream, frame.bytes, frame.fin);
        return;
      case 'synStream':
        this.#accept(frame.stream, this.#decompressor.decompress(frame.block), frame.fin);
        return;
      case 'synReply': {
        const headers = this.#decompressor.decompress(frame.block);
        const stream = this.#streams.get(frame.stream);
        stream?.handleReply(headers);
        if (frame.fin) stream?.handleEnd('fin');
        return;
      }
      case 'headers':
        // these frames are not used here, but later blocks are compressed with their content as context
        this.#decompressor.decompress(frame.block);
        if (frame.fin) this.#streams.get(frame.stream)?.handleEnd('fin');
        return;
      case 'rstStream':
        this.#streams.get(frame.stream)?.handleEnd('reset', frame.status);
        return;
      case 'settings':
        this.#settings(frame.values);
        return;
      case 'ping':
        this.#pinged(frame.id);
        return;
      case 'windowUpdate':
        this.#windows.handleWindowUpdate(frame.stream, frame.delta);
        this.#resumeSending();
        return;
      // open streams continue; the end of the socket is a separate event
      case 'goAway':
        return;
    }
  }

  #accept(id: number, headers: Headers, fin: boolean): void {
    const wrong = id % 2 === this.#nextStream % 2 || id <= this.#lastFromPeer;
    if (wrong) throw new SpdyError('Protocol', `the peer cannot open stream ${id}`);
    this.#lastFromPeer = id;
    if (!this.#options.onStream || this.#streams.size >= (this.#options.maxStreams ?? 256)) {
      this.#outbox.send(encodeFrame({ type: 'rstStream', stream: id, status: resetStatus.refusedStream }));
      return;
    }
    const stream = this.#add(id, headers);
    this.#options.onStream(stream);
    if (fin) stream.handleEnd('fin');
  }

  #data(id: number, bytes: Buffer, fin: boolean): void {
    const stream = this.#streams.get(id);
    if (!this.#windows.received(id, bytes.length)) {
      stream?.reset(resetStatus.flowControlError);
      return;
    }
    const keepsUp = !stream || stream.handleData(bytes);
    if (keepsUp) this.#windows.consumed(id);
    if (fin) stream?.handleEnd('fin');
  }

  #settings(values: ReadonlyMap<number, number>): void {
    const window = values.get(settingInitialWindow);
    if (window === undefined) return;
    this.#windows.setPeerInitialWindow(window);
    this.#resumeSending();
  }

  #pinged(id: number): void {
    if (id % 2 !== this.#nextPing % 2) {
      this.#outbox.send(encodeFrame({ type: 'ping', id }));
      return;
    }
    this.#pings.get(id)?.();
    this.#pings.delete(id);
  }
}
