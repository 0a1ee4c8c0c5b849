import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import { headerDictionary, headerDictionaryId } from './header-dictionary.ts';
import { SpdyError } from '../frames.ts';

/** Names are lower case. A name that came several times has its values joined by NUL, as on the wire. */
export type Headers = Readonly<Record<string, string>>;

// zlib's window
const reach = 32 * 1024;
/** Of a header block, unpacked. Blocks of the streaming protocols have a few hundred bytes. */
const largestBlock = 64 * 1024;
const zlibHeader = Buffer.from([0x78, 0xbb, 0, 0, 0, 0]);
zlibHeader.writeUInt32BE(headerDictionaryId, 2);

/** The last 32 KiB that went through: all that one block can refer to in earlier ones. */
const slide = (window: Buffer, plain: Buffer): Buffer => Buffer.concat([window, plain]).subarray(-reach);

/**
 * All header blocks of one direction are one zlib stream, flushed after each block. A flushed piece can be handled by itself when what it
 * may refer to is given as its dictionary; so the calls stay synchronous, and blocks cannot get out of order.
 */
export class HeaderCompressor {
  #window = headerDictionary;
  #begun = false;
  compress(headers: Headers): Buffer {
    const plain = encodeBlock(headers);
    const packed = deflateRawSync(plain, { dictionary: this.#window, finishFlush: constants.Z_SYNC_FLUSH });
    this.#window = slide(this.#window, plain);
    if (this.#begun) return packed;
    this.#begun = true;
    return Buffer.concat([zlibHeader, packed]);
  }
}

export class HeaderDecompressor {
  #window = headerDictionary;
  #begun = false;
  /** @throws SpdyError `Protocol` */
  decompress(packed: Buffer): Headers {
    let body = packed;
    if (!this.#begun) {
      body = packed.subarray(this.#skipZlibHeader(packed));
      this.#begun = true;
    }
    let plain: Buffer;
    try {
      plain = inflateRawSync(body, { dictionary: this.#window, finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: largestBlock });
    } catch (cause) {
      throw new SpdyError('Protocol', 'a header block cannot be unpacked', { cause });
    }
    this.#window = slide(this.#window, plain);
    return decodeBlock(plain);
  }

  /** RFC 1950, section 2.2: two bytes, and four more that name the dictionary when there is one. */
  #skipZlibHeader(packed: Buffer): number {
    const flags = packed[1] ?? 0;
    if (packed.length < 2 || ((packed[0] ?? 0) & 0x0f) !== 8 || packed.readUInt16BE(0) % 31 !== 0)
      throw new SpdyError('Protocol', 'header blocks are not a zlib stream');
    if ((flags & 0x20) === 0) {
      this.#window = Buffer.alloc(0);
      return 2;
    }
    if (packed.length < 6 || packed.readUInt32BE(2) !== headerDictionaryId)
      throw new SpdyError('Protocol', 'header blocks use another dictionary than SPDY/3');
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
    if (offset + length > plain.length) throw new SpdyError('Protocol', 'a header block is cut short');
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
