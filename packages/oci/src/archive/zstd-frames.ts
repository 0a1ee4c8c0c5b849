/** Largest window of a zstd frame in bytes, as in the `zstd` program without `--long`. */
const maxWindow = 128 * 1024 * 1024;
/** Blocks that a stream may have in any case. A decoder copies the window for each block, so that many small blocks take very long. */
const freeBlocks = 4096;
const bytesPerBlock = 1024;

const skippable = 0x184d2a50;
const magic = 0xfd2fb528;

/** What the next bytes of a stream are. */
type Part = 'magic' | 'skippable size' | 'descriptor' | 'header' | 'block header' | 'content';

/**
 * Follows the frames and blocks of a zstd stream (RFC 8878), to reject those that would make a decoder without bounds use too much memory or time: it
 * allocates the window that a frame names.
 */
export class ZstdFrames {
  #part: Part = 'magic';
  /** The bytes of the current part so far. Parts other than content are at most 13 bytes long. */
  #bytes: number[] = [];
  #needed = 4;
  /** Bytes of content that follow, and the part after them. */
  #content = 0;
  #next: Part = 'magic';
  #descriptor = 0;
  #blocks = 0;
  #read = 0;

  /** Examines the next bytes. @throws Error if a frame exceeds a bound; malformed frames are left to the decoder */
  push(chunk: Uint8Array): void {
    this.#read += chunk.length;
    for (let at = 0; at < chunk.length; ) {
      if (this.#part === 'content') {
        const length = Math.min(this.#content, chunk.length - at);
        this.#content -= length;
        at += length;
        if (this.#content === 0) this.#begin(this.#next);
        continue;
      }
      this.#bytes.push(chunk[at] ?? 0);
      at += 1;
      if (this.#bytes.length === this.#needed) this.#end(Buffer.from(this.#bytes));
    }
  }

  #begin(part: Part, needed = { magic: 4, 'skippable size': 4, descriptor: 1, header: 0, 'block header': 3, content: 0 }[part]): void {
    this.#part = part;
    this.#needed = needed;
    this.#bytes = [];
  }

  #skip(length: number, next: Part): void {
    this.#content = length;
    this.#next = next;
    this.#begin(length === 0 ? next : 'content');
  }

  #end(bytes: Buffer): void {
    switch (this.#part) {
      case 'magic':
        if ((bytes.readUInt32LE() & 0xfffffff0) >>> 0 === skippable) this.#begin('skippable size');
        else if (bytes.readUInt32LE() === magic) this.#begin('descriptor');
        else this.#skip(Number.POSITIVE_INFINITY, 'magic');
        break;
      case 'skippable size':
        this.#skip(bytes.readUInt32LE(), 'magic');
        break;
      case 'descriptor':
        this.#descriptor = bytes[0] ?? 0;
        this.#begin('header', headerLength(this.#descriptor));
        break;
      case 'header':
        if (windowOf(this.#descriptor, bytes) > maxWindow) throw new Error(`the window exceeds ${maxWindow} bytes`);
        this.#begin('block header');
        break;
      case 'block header':
        this.#endBlockHeader(bytes.readUIntLE(0, 3));
    }
  }

  #endBlockHeader(header: number): void {
    this.#blocks += 1;
    if (this.#blocks > freeBlocks + this.#read / bytesPerBlock) throw new Error('it has too many small blocks');
    const isRunLength = ((header >> 1) & 3) === 1;
    const length = isRunLength ? 1 : header >> 3;
    const isLast = (header & 1) === 1;
    const checksum = isLast && (this.#descriptor & 4) !== 0 ? 4 : 0;
    this.#skip(length + checksum, isLast ? 'magic' : 'block header');
  }
}

const isSingleSegment = (descriptor: number): boolean => (descriptor & 0x20) !== 0;
const dictionaryLength = (descriptor: number): number => [0, 1, 2, 4][descriptor & 3] ?? 0;
/** Returns the length of the field Frame_Content_Size. */
const sizeLength = (descriptor: number): number => [isSingleSegment(descriptor) ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;

/** Returns the length of a frame header after its descriptor. */
const headerLength = (descriptor: number): number =>
  (isSingleSegment(descriptor) ? 0 : 1) + dictionaryLength(descriptor) + sizeLength(descriptor);

/** Returns the window of a frame in bytes; that of a single segment is its content. RFC 8878, section 3.1.1.1. */
function windowOf(descriptor: number, header: Buffer): number {
  if (!isSingleSegment(descriptor)) {
    const byte = header[0] ?? 0;
    const base = 2 ** (10 + (byte >> 3));
    return base + (base / 8) * (byte & 7);
  }
  const at = dictionaryLength(descriptor);
  const length = sizeLength(descriptor);
  return length === 8 ? Number(header.readBigUInt64LE(at)) : header.readUIntLE(at, length) + (length === 2 ? 256 : 0);
}
