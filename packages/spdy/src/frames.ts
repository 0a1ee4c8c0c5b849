/**
 * The kind of a SPDY error. `Protocol`: the peer violated the protocol. `Reset`: the peer reset one stream. `Closed`: the connection is closed.
 * `Refused`: the server responded without an upgrade.
 */
export type SpdyErrorCode = 'Protocol' | 'Reset' | 'Closed' | 'Refused';
export class SpdyError extends Error {
  override readonly name = 'SpdyError';
  readonly code: SpdyErrorCode;
  /** The HTTP status if the upgrade failed; the RST_STREAM status of a reset. */
  readonly status: number | undefined;
  constructor(code: SpdyErrorCode, message: string, options: ErrorOptions & { readonly status?: number } = {}) {
    super(message, options);
    this.code = code;
    this.status = options.status;
  }
}

/** RST_STREAM status codes (SPDY/3, section 2.4.2). */
export const resetStatus = {
  protocolError: 1,
  invalidStream: 2,
  refusedStream: 3,
  cancel: 5,
  internalError: 6,
  flowControlError: 7,
  streamInUse: 8,
  streamAlreadyClosed: 9,
} as const;
export const settingInitialWindow = 7;

/** A SPDY frame. Header blocks are still compressed: the connection's decompressor decompresses them in the order of arrival. */
export type Frame =
  | { readonly type: 'data'; readonly stream: number; readonly fin: boolean; readonly bytes: Buffer }
  | {
      readonly type: 'synStream';
      readonly stream: number;
      readonly fin: boolean;
      readonly unidirectional: boolean;
      readonly priority: number;
      readonly block: Buffer;
    }
  | { readonly type: 'synReply'; readonly stream: number; readonly fin: boolean; readonly block: Buffer }
  | { readonly type: 'rstStream'; readonly stream: number; readonly status: number }
  | { readonly type: 'settings'; readonly values: ReadonlyMap<number, number> }
  | { readonly type: 'ping'; readonly id: number }
  | { readonly type: 'goAway'; readonly lastStream: number; readonly status: number }
  | { readonly type: 'headers'; readonly stream: number; readonly fin: boolean; readonly block: Buffer }
  | { readonly type: 'windowUpdate'; readonly stream: number; readonly delta: number };

const version = 3;
const control = { synStream: 1, synReply: 2, rstStream: 3, settings: 4, ping: 6, goAway: 7, headers: 8, windowUpdate: 9 } as const;
const flagFin = 1;
const flagUnidirectional = 2;
const headLength = 8;
/** Maximum length of a control frame. Data frames have no limit: their data is passed on in pieces. */
const largestControlFrame = 64 * 1024;

const numbers = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => {
    bytes.writeUInt32BE(value >>> 0, index * 4);
  });
  return bytes;
};
const head = (first: number, flags: number, length: number) => numbers(first, ((flags << 24) | length) >>> 0);
const controlFrame = (type: number, flags: number, ...body: Buffer[]): Buffer => {
  const length = body.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([head(((0x8000 | version) << 16) | type, flags, length), ...body]);
};

/** Encodes the header of a data frame, to be followed by `length` bytes. */
export function dataHead(stream: number, length: number, fin: boolean): Buffer {
  const bytes = Buffer.allocUnsafe(headLength);
  bytes.writeUInt32BE(stream, 0);
  bytes.writeUInt32BE(((fin ? flagFin : 0) << 24) | length, 4);
  return bytes;
}

export function encodeFrame(frame: Exclude<Frame, { type: 'data' }>): Buffer {
  const fin = 'fin' in frame && frame.fin ? flagFin : 0;
  switch (frame.type) {
    case 'synStream': {
      const rest = Buffer.from([frame.priority << 5, 0]);
      return controlFrame(
        control.synStream,
        fin | (frame.unidirectional ? flagUnidirectional : 0),
        numbers(frame.stream, 0),
        rest,
        frame.block,
      );
    }
    case 'synReply':
      return controlFrame(control.synReply, fin, numbers(frame.stream), frame.block);
    case 'rstStream':
      return controlFrame(control.rstStream, 0, numbers(frame.stream, frame.status));
    case 'settings':
      return controlFrame(control.settings, 0, numbers(frame.values.size, ...[...frame.values].flat()));
    case 'ping':
      return controlFrame(control.ping, 0, numbers(frame.id));
    case 'goAway':
      return controlFrame(control.goAway, 0, numbers(frame.lastStream, frame.status));
    case 'headers':
      return controlFrame(control.headers, fin, numbers(frame.stream), frame.block);
    case 'windowUpdate':
      return controlFrame(control.windowUpdate, 0, numbers(frame.stream, frame.delta));
  }
}

/** Splits the bytes of a socket into frames. Buffers at most one control frame; data is passed on as it arrives. */
export class FrameReader {
  #pending: Buffer = Buffer.alloc(0);
  /** The rest of a data frame whose header was read. */
  #data: { readonly stream: number; readonly fin: boolean; left: number } | undefined;

  /** Yields the frames that `chunk` completes. @throws SpdyError `Protocol` if a frame is invalid */
  *push(chunk: Buffer): Generator<Frame> {
    let bytes = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk;
    this.#pending = Buffer.alloc(0);
    for (;;) {
      if (this.#data) {
        const { stream, fin } = this.#data;
        const piece = bytes.subarray(0, this.#data.left);
        this.#data.left -= piece.length;
        bytes = bytes.subarray(piece.length);
        const last = this.#data.left === 0;
        if (last) this.#data = undefined;
        if (piece.length > 0 || (last && fin)) yield { type: 'data', stream, fin: last && fin, bytes: piece };
        if (!last) return;
      }
      if (bytes.length < headLength) break;
      const first = bytes.readUInt32BE(0);
      const flags = bytes[4] ?? 0;
      const length = bytes.readUIntBE(5, 3);
      if (first < 0x80000000) {
        this.#data = { stream: first, fin: (flags & flagFin) !== 0, left: length };
        bytes = bytes.subarray(headLength);
        continue;
      }
      if (length > largestControlFrame) throw new SpdyError('Protocol', `a control frame of ${length} bytes`);
      if (bytes.length < headLength + length) break;
      const frame = decodeControl(first, flags, bytes.subarray(headLength, headLength + length));
      bytes = bytes.subarray(headLength + length);
      if (frame) yield frame;
    }
    this.#pending = bytes;
  }
}

/** Decodes a control frame, or returns undefined for unknown types, which must be ignored. */
function decodeControl(first: number, flags: number, body: Buffer): Frame | undefined {
  if (((first >>> 16) & 0x7fff) !== version) throw new SpdyError('Protocol', `SPDY version ${(first >>> 16) & 0x7fff}`);
  const fin = (flags & flagFin) !== 0;
  const number = (offset: number): number => {
    if (offset + 4 > body.length) throw new SpdyError('Protocol', 'a control frame is truncated');
    return body.readUInt32BE(offset);
  };
  const id = (offset: number) => number(offset) & 0x7fffffff;
  switch (first & 0xffff) {
    case control.synStream:
      id(4);
      return {
        type: 'synStream',
        stream: id(0),
        fin,
        unidirectional: (flags & flagUnidirectional) !== 0,
        priority: (body[8] ?? 0) >>> 5,
        block: body.subarray(10),
      };
    case control.synReply:
      return { type: 'synReply', stream: id(0), fin, block: body.subarray(4) };
    case control.rstStream:
      return { type: 'rstStream', stream: id(0), status: number(4) };
    case control.settings: {
      const values = new Map<number, number>();
      const count = number(0);
      if (body.length !== 4 + count * 8) throw new SpdyError('Protocol', 'a SETTINGS frame has a wrong length');
      for (let entry = 0; entry < count; entry++) values.set(number(4 + entry * 8) & 0xffffff, number(8 + entry * 8));
      return { type: 'settings', values };
    }
    case control.ping:
      return { type: 'ping', id: number(0) };
    case control.goAway:
      return { type: 'goAway', lastStream: id(0), status: number(4) };
    case control.headers:
      return { type: 'headers', stream: id(0), fin, block: body.subarray(4) };
    case control.windowUpdate:
      return { type: 'windowUpdate', stream: id(0), delta: id(4) };
    default:
      return undefined;
  }
}
