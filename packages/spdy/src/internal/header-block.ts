import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import { headerDictionary, headerDictionaryId } from './header-dictionary.ts';
import { SpdyError } from '../frames.ts';

/** Names are lower case. A repeated name has its values joined by NUL, as on the wire. */
export type Headers = Readonly<Record<string, string>>;

// window size of zlib
const windowSize = 32 * 1024;
/** Maximum size of a header block after decompression. Blocks of the streaming protocols have a few hundred bytes. */
const largestBlock = 64 * 1024;
const zlibHeader = Buffer.from([0x78, 0xbb, 0, 0, 0, 0]);
zlibHeader.writeUInt32BE(headerDictionaryId, 2);

/** Returns the last 32 KiB of the stream: later blocks can refer to these bytes. */
const slide = (window: Buffer, plain: Buffer): Buffer => Buffer.concat([window, plain]).subarray(-windowSize);

/**
 * Compresses header blocks. All header blocks of one direction are one zlib stream, flushed after each block. A flushed block is processed
 * separately with the preceding window as its dictionary, so that calls are synchronous and blocks stay in order.
 */
export class HeaderCompressor {
  #window = headerDictionary;
  #headerWritten = false;
  compress(headers: Headers): Buffer {
    const plain = encodeBlock(headers);
    const packed = deflateRawSync(plain, { dictionary: this.#window, finishFlush: constants.Z_SYNC_FLUSH });
    this.#window = slide(this.#window, plain);
    if (this.#headerWritten) return packed;
    this.#headerWritten = true;
    return Buffer.concat([zlibHeader, packed]);
  }
}

export class HeaderDecompressor {
  #window = headerDictionary;
  #headerRead = false;
  /** Decompresses a header block. @throws SpdyError `Protocol` if the block is invalid or too large */
  decompress(packed: Buffer): Headers {
    let body = packed;
    if (!this.#headerRead) {
      body = packed.subarray(this.#skipZlibHeader(packed));
      this.#headerRead = true;
    }
    let plain: Buffer;
    try {
      plain = inflateRawSync(body, { dictionary: this.#window, finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: largestBlock });
    } catch (cause) {
      throw new SpdyError('Protocol', 'a header block cannot be decompressed', { cause });
    }
    this.#window = slide(this.#window, plain);
    return decodeBlock(plain);
  }

  /** Skips the zlib header: two bytes, and four more if a dictionary is identified (RFC 1950, section 2.2). */
  #skipZlibHeader(packed: Buffer): number {
    const flags = packed[1] ?? 0;
    if (packed.length < 2 || ((packed[0] ?? 0) & 0x0f) !== 8 || packed.readUInt16BE(0) % 31 !== 0)
      throw new SpdyError('Protocol', 'header blocks are not a zlib stream');
    if ((flags & 0x20) === 0) {
      this.#window = Buffer.alloc(0);
      return 2;
    }
    if (packed.length < 6 || packed.readUInt32BE(2) !== headerDictionaryId)
      throw new SpdyError('Protocol', 'header blocks use a dictionary other than that of SPDY/3');
    return 6;
  }
}

function encodeBlock(headers: Headers): Buffer {
  const parts: Buffer[] = [];
  const number = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(value);
    parts.push(bytes);
  };
  const text = (value: string) => {
    const bytes = Buffer.from(value, 'utf8');
    number(bytes.length);
    parts.push(bytes);
  };
  const entries = Object.entries(headers);
  number(entries.length);
  for (const [name, value] of entries) {
    text(name.toLowerCase());
    text(value);
  }
  return Buffer.concat(parts);
}

function decodeBlock(plain: Buffer): Headers {
  let offset = 0;
  const take = (length: number): Buffer => {
    if (offset + length > plain.length) throw new SpdyError('Protocol', 'a header block is truncated');
    offset += length;
    return plain.subarray(offset - length, offset);
  };
  const text = () => take(take(4).readUInt32BE()).toString('utf8');
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (let count = take(4).readUInt32BE(); count > 0; count--) {
    const name = text();
    headers[name] = text();
  }
  return headers;
}
