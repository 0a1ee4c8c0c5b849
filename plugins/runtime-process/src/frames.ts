/**
 * The frames of a session: one byte of kind, four of length (big endian), the payload. Back-pressure is the socket's own: who
 * cannot pass on what came stops reading.
 */
export const frameKinds = ['stdin', 'stdout', 'stderr', 'stdinEnd', 'resize', 'kill', 'end'] as const;
/**
 * `stdin`, `stdinEnd`, `resize` (JSON `{ width, height }`) and `kill` go to the supervisor; `stdout`, `stderr` and `end` come from it.
 * `end` is the last: JSON `{ exitCode }` or `{ error: { code, message } }`.
 */
export type FrameKind = (typeof frameKinds)[number];
export interface Frame {
  readonly kind: FrameKind;
  readonly payload: Buffer;
}

const header = 5;
/** Larger payloads are cut. */
const largest = 1024 * 1024;

export function encodeFrame(kind: FrameKind, payload: Uint8Array | string = ''): Buffer {
  const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload;
  if (bytes.length > largest) throw new RangeError(`a frame holds at most ${largest} bytes`);
  const frame = Buffer.allocUnsafe(header + bytes.length);
  frame[0] = frameKinds.indexOf(kind);
  frame.writeUInt32BE(bytes.length, 1);
  frame.set(bytes, header);
  return frame;
}

/** Cut so that each fits a frame. */
export function encodeFrames(kind: 'stdin' | 'stdout' | 'stderr', bytes: Uint8Array): Buffer[] {
  const frames: Buffer[] = [];
  for (let start = 0; start < bytes.length; start += largest) frames.push(encodeFrame(kind, bytes.subarray(start, start + largest)));
  return frames;
}

/** @throws RangeError for what is no frame: the connection is then useless */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (bytes.length >= header) {
      const kind = frameKinds[bytes[0] ?? 0];
      const length = bytes.readUInt32BE(1);
      if (kind === undefined || length > largest) throw new RangeError('not a frame');
      if (bytes.length < header + length) break;
      frames.push({ kind, payload: bytes.subarray(header, header + length) });
      bytes = bytes.subarray(header + length);
    }
    this.#rest = bytes;
    return frames;
  }
}
