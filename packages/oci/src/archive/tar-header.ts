import { OciError } from '../oci-error.ts';

/** A part of a sparse file that is not a hole. */
export interface SparsePart {
  readonly offset: number;
  readonly length: number;
}

export type TarEntryType = 'file' | 'link' | 'symlink' | 'character-device' | 'block-device' | 'directory' | 'fifo';

/** One entry of an archive. `path` and `linkPath` have one character per byte (see byte-path.ts), as they are in the archive. */
export interface TarEntry {
  readonly type: TarEntryType;
  readonly path: string;
  readonly linkPath: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Size of the file in bytes, with holes. */
  readonly size: number;
  /** Seconds since the epoch, with fractions. */
  readonly mtime: number;
  readonly deviceMajor: number;
  readonly deviceMinor: number;
  /** Extended attributes of the file by name. */
  readonly xattrs: ReadonlyMap<string, Buffer>;
}

export const blockSize = 512;
export const invalid = (reason: string): OciError => new OciError('InvalidContent', `invalid tar archive: ${reason}`);

/** The fields of a header block as they are, before extended headers are applied. */
export interface RawHeader {
  readonly path: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly mtime: number;
  readonly type: string;
  readonly linkPath: string;
  readonly deviceMajor: number;
  readonly deviceMinor: number;
}

function text(block: Buffer, offset: number, length: number): string {
  const end = block.indexOf(0, offset);
  return block.toString('latin1', offset, end < 0 || end > offset + length ? offset + length : end);
}

/** Parses a number in octal, or in base 256 if the first bit is set (GNU and star). @throws OciError if the number is malformed or not safe */
export function tarNumber(block: Buffer, offset: number, length: number): number {
  const first = block[offset] ?? 0;
  if ((first & 0x80) !== 0) {
    let value = first & 0x40 ? BigInt(first & 0x7f) - 128n : BigInt(first & 0x7f);
    for (let index = 1; index < length; index += 1) value = value * 256n + BigInt(block[offset + index] ?? 0);
    const number = Number(value);
    if (!Number.isSafeInteger(number)) throw invalid('a number in a header is too large');
    return number;
  }
  const digits = text(block, offset, length).trim();
  if (digits === '') return 0;
  if (!/^[0-7]+$/.test(digits)) throw invalid('a number in a header is malformed');
  return Number.parseInt(digits, 8);
}

function verifyChecksum(block: Buffer): void {
  const expected = tarNumber(block, 148, 8);
  let unsigned = 0;
  let signed = 0;
  for (let index = 0; index < blockSize; index += 1) {
    const byte = index >= 148 && index < 156 ? 32 : (block[index] ?? 0);
    unsigned += byte;
    signed += byte > 127 ? byte - 256 : byte;
  }
  // old programs of some systems sum signed bytes
  if (expected !== unsigned && expected !== signed) throw invalid('the checksum of a header is wrong');
}

/** Parses a header block. @throws OciError `InvalidContent` */
export function parseHeader(block: Buffer): RawHeader {
  verifyChecksum(block);
  const magic = block.toString('latin1', 257, 265);
  const isUstar = magic.startsWith('ustar\u0000');
  const isGnu = magic === 'ustar  \u0000';
  const prefix = isUstar ? text(block, 345, 155) : '';
  const name = text(block, 0, 100);
  const size = tarNumber(block, 124, 12);
  if (size < 0) throw invalid('the size of an entry is negative');
  const type = String.fromCharCode(block[156] ?? 0);
  const hasDevice = (isUstar || isGnu) && (type === '3' || type === '4');
  return {
    path: prefix === '' ? name : `${prefix}/${name}`,
    mode: tarNumber(block, 100, 8),
    uid: tarNumber(block, 108, 8),
    gid: tarNumber(block, 116, 8),
    size,
    mtime: tarNumber(block, 136, 12),
    type: type === '\u0000' ? '0' : type,
    linkPath: text(block, 157, 100),
    deviceMajor: hasDevice ? tarNumber(block, 329, 8) : 0,
    deviceMinor: hasDevice ? tarNumber(block, 337, 8) : 0,
  };
}
