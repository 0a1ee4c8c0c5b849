import { crc32c } from './crc32c.ts';
import type { DiskFile } from './disk.ts';

/**
 * A file is a sequence of frames, each aligned to eight bytes:
 *
 *     u32 magic | u32 CRC-32C of all that follows | u32 length of the payload | u32 kind | payload | zeros up to a multiple of eight
 *
 * Numbers are little endian. The first frame of a file is its head, JSON with a `salt`. The checksums of all other frames are seeded
 * with the salt, so that stored values cannot be mistaken for frames.
 */
export const frameKinds = { head: 1, commits: 2, entries: 3, foot: 4, continued: 5 } as const;
export type FrameKind = keyof typeof frameKinds;

const magic = 0x314b524f; // "ORK1"
export const headerBytes = 16;
/** A frame contains at least one commit, whose size is limited. */
export const maxPayloadBytes = 128 * 1024 * 1024;
const window = 4 * 1024 * 1024;

export const frameBytes = (payload: number): number => (headerBytes + payload + 7) & ~7;

/** Completes a frame that already contains its payload. */
export function sealFrame(frame: Buffer, kind: FrameKind, payload: number, salt: number): void {
  frame.writeUInt32LE(magic, 0);
  frame.writeUInt32LE(payload, 8);
  frame.writeUInt32LE(frameKinds[kind], 12);
  frame.fill(0, headerBytes + payload);
  frame.writeUInt32LE(crc32c(frame, 8, headerBytes + payload, salt), 4);
}

/** Returns the frame at the end of a segment that another segment continues. It has no payload, so that earlier releases read it as no commits. */
export function continuedFrame(salt: number): Buffer {
  const frame = Buffer.alloc(headerBytes);
  sealFrame(frame, 'continued', 0, salt);
  return frame;
}

export function jsonFrame(kind: FrameKind, content: object, salt: number): Buffer {
  const text = Buffer.from(JSON.stringify(content));
  const frame = Buffer.alloc(frameBytes(text.length));
  text.copy(frame, headerBytes);
  sealFrame(frame, kind, text.length, salt);
  return frame;
}

export interface Frame {
  readonly kind: number;
  /** Valid until the next frame is read; copy what must be kept. */
  readonly payload: Buffer;
  readonly offset: number;
}

/** Reads the frames of a file in order. */
export class FrameReader {
  readonly #file: DiskFile;
  readonly #size: number;
  #salt = 0;
  #window: Buffer = Buffer.alloc(0);
  #windowAt = 0;
  /** Offset of the next frame. */
  offset = 0;

  private constructor(file: DiskFile, size: number) {
    this.#file = file;
    this.#size = size;
  }

  static async open(file: DiskFile): Promise<FrameReader> {
    return new FrameReader(file, await file.size());
  }

  get size(): number {
    return this.#size;
  }

  /** Reads the head of the file. Returns undefined if it is incomplete. */
  async head<T extends { readonly salt: number }>(): Promise<T | undefined> {
    const frame = await this.next();
    if (frame?.kind !== frameKinds.head) return undefined;
    const head = JSON.parse(frame.payload.toString()) as T;
    this.#salt = head.salt;
    return head;
  }

  /** Reads the next frame. Returns undefined at the end, and if the frame is incomplete or damaged. */
  async next(): Promise<Frame | undefined> {
    const frame = await this.#at(this.offset);
    if (frame) this.offset += frameBytes(frame.payload.length);
    return frame;
  }

  /** Returns the offset of a valid frame after `offset`, if there is one: then the data at `offset` was damaged, not cut off by a crash. */
  async later(): Promise<number | undefined> {
    const mark = Buffer.alloc(4);
    mark.writeUInt32LE(magic);
    for (let from = this.offset + 8; from + headerBytes <= this.#size; from += window - 8) {
      const bytes = Buffer.from(await this.#bytes(from, Math.min(window, this.#size - from)));
      for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1))
        if ((from + at) % 8 === 0 && (await this.#at(from + at))) return from + at;
    }
    return undefined;
  }

  /** Returns true if there are bytes other than zero from an offset; by default from the next frame. */
  async dirty(from: number = this.offset): Promise<boolean> {
    for (let at = from; at < this.#size; at += window) {
      const bytes = await this.#bytes(at, Math.min(window, this.#size - at));
      if (!bytes.equals(Buffer.alloc(bytes.length))) return true;
    }
    return false;
  }

  async #at(offset: number): Promise<Frame | undefined> {
    if (offset + headerBytes > this.#size) return undefined;
    const header = await this.#bytes(offset, headerBytes);
    const length = header.readUInt32LE(8);
    if (header.readUInt32LE(0) !== magic || length > maxPayloadBytes || offset + headerBytes + length > this.#size) return undefined;
    const bytes = await this.#bytes(offset, headerBytes + length);
    if (crc32c(bytes, 8, bytes.length, this.#salt) !== bytes.readUInt32LE(4)) return undefined;
    return { kind: bytes.readUInt32LE(12), payload: bytes.subarray(headerBytes), offset };
  }

  async #bytes(offset: number, length: number): Promise<Buffer> {
    if (offset < this.#windowAt || offset + length > this.#windowAt + this.#window.length) {
      const target = Math.min(Math.max(length, window), this.#size - offset);
      const bytes = this.#window.length >= target && target >= length ? this.#window : Buffer.allocUnsafeSlow(target);
      const count = await this.#file.read(bytes.subarray(0, target), offset);
      this.#window = bytes.subarray(0, count);
      this.#windowAt = offset;
      if (count < length) throw new Error(`the file ends at ${offset + count} while it is being read`);
    }
    return this.#window.subarray(offset - this.#windowAt, offset - this.#windowAt + length);
  }
}
