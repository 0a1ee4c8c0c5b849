/**
 * The frames of a session: one byte with the kind, four with the length (big endian), the payload. Back-pressure is that of the socket: an
 * end that cannot forward data stops reading.
 */
export const frameKinds = ['stdin', 'stdout', 'stderr', 'stdinEnd', 'resize', 'kill', 'end'] as const;
/**
 * The driver sends `stdin`, `stdinEnd`, `resize` (JSON `{ width, height }`) and `kill`; the supervisor sends `stdout`, `stderr` and `end`.
 * `end` is the last frame: JSON `{ exitCode }` or `{ error: { code, message } }`.
 */
export type FrameKind = (typeof frameKinds)[number];
export interface Frame {
  readonly kind: FrameKind;
  readonly payload: Buffer;
}

const headerBytes = 5;
/** Larger payloads are split. */
const maxPayloadBytes = 1024 * 1024;

export function encodeFrame(kind: FrameKind, payload: Uint8Array | string = ''): Buffer {
  const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload;
  if (bytes.length > maxPayloadBytes) throw new RangeError(`a frame holds at most ${maxPayloadBytes} bytes`);
  const frame = Buffer.allocUnsafe(headerBytes + bytes.length);
  frame[0] = frameKinds.indexOf(kind);
  frame.writeUInt32BE(bytes.length, 1);
  frame.set(bytes, headerBytes);
  return frame;
}

/** Encodes bytes as frames of at most `maxPayloadBytes`. */
export function encodeFrames(kind: 'stdin' | 'stdout' | 'stderr', bytes: Uint8Array): Buffer[] {
  const frames: Buffer[] = [];
  for (let start = 0; start < bytes.length; start += maxPayloadBytes)
    frames.push(encodeFrame(kind, bytes.subarray(start, start + maxPayloadBytes)));
  return frames;
}

/** Splits a stream of bytes into frames. @throws RangeError for an invalid frame: the connection cannot be used further */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (bytes.length >= headerBytes) {
      const kind = frameKinds[bytes[0] ?? 0];
      const length = bytes.readUInt32BE(1);
      if (kind === undefined || length > maxPayloadBytes) throw new RangeError('not a frame');
      if (bytes.length < headerBytes + length) break;
      frames.push({ kind, payload: bytes.subarray(headerBytes, headerBytes + length) });
      bytes = bytes.subarray(headerBytes + length);
    }
    this.#rest = bytes;
    return frames;
  }
}
