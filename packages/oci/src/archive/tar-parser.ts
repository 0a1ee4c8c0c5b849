import { checkSparse, parsePax, paxNumber, sparseOfRecords, type PaxRecords } from './pax.ts';
import {
  blockSize,
  invalid,
  parseHeader,
  tarNumber,
  type RawHeader,
  type SparsePart,
  type TarEntry,
  type TarEntryType,
} from './tar-header.ts';

/** Receives the entries of an archive in their order. Every call is synchronous; an exception ends the parsing. */
export interface TarHandler {
  entry(entry: TarEntry): void;
  /** A part of the content of the last file, to be written at an offset. Bytes between parts are zero. The buffer is valid during the call only. */
  data(chunk: Buffer, offset: number): void;
  endOfEntry(): void;
}

const types: Readonly<Record<string, TarEntryType>> = {
  '0': 'file',
  '1': 'link',
  '2': 'symlink',
  '3': 'character-device',
  '4': 'block-device',
  '5': 'directory',
  '6': 'fifo',
  '7': 'file',
  S: 'file',
};
/** Sizes in bytes of an extended header, and of a path. Linux limits paths to 4096. */
const maxExtendedHeader = 1024 * 1024;
const maxPath = 4096;
const maxGlobals = 64;
const xattrPrefix = 'SCHILY.xattr.';

type State =
  | { readonly name: 'header' | 'sparse-extension' | 'end' }
  | { readonly name: 'extended'; readonly type: string; readonly parts: Buffer[]; left: number }
  | { readonly name: 'sparse-map'; text: string; readonly raw: RawHeader; stored: number }
  | { readonly name: 'data'; left: number };

/**
 * Parses ustar, pax and GNU archives from chunks: long names, sparse files of all GNU formats, numbers in base 256, and extended attributes as bytes.
 * Malformed archives, and archives without their end, are rejected with `InvalidContent`.
 */
export class TarParser {
  readonly #handler: TarHandler;
  #state: State = { name: 'header' };
  /** Bytes of an incomplete block. */
  readonly #block = Buffer.alloc(blockSize);
  #filled = 0;
  #padding = 0;
  #zeroBlocks = 0;
  readonly #globals: PaxRecords = new Map();
  #records: PaxRecords = new Map();
  /** Bytes of the extended headers of the next entry, and of all global headers. */
  #extendedBytes = 0;
  #globalBytes = 0;
  #recordList: (readonly [string, Buffer])[] = [];
  #longPath: string | undefined;
  #longLink: string | undefined;
  #sparse: readonly SparsePart[] | undefined;
  #sparseIndex = 0;
  #sparseOffset = 0;
  #position = 0;
  #oldSparse: { readonly raw: RawHeader; readonly parts: SparsePart[]; readonly size: number } | undefined;

  constructor(handler: TarHandler) {
    this.#handler = handler;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && this.#state.name !== 'end') at += this.#consume(chunk, at);
  }

  /** Ends the archive. @throws OciError `InvalidContent` if an entry is incomplete */
  end(): void {
    // an archive without its two zero blocks is accepted at the end of an entry, as by Go's archive/tar
    const isBetweenEntries = this.#state.name === 'header' && this.#filled === 0 && this.#padding === 0;
    if (this.#state.name !== 'end' && !isBetweenEntries) throw invalid('unexpected end of the archive');
  }

  #consume(chunk: Buffer, at: number): number {
    const state = this.#state;
    if (state.name === 'data' || (state.name === 'extended' && state.left > 0)) return this.#consumeBody(state, chunk, at);
    if (this.#padding > 0) {
      const skipped = Math.min(this.#padding, chunk.length - at);
      this.#padding -= skipped;
      return skipped;
    }
    const length = Math.min(blockSize - this.#filled, chunk.length - at);
    chunk.copy(this.#block, this.#filled, at, at + length);
    this.#filled += length;
    if (this.#filled === blockSize) {
      this.#filled = 0;
      this.#onBlock(this.#block);
    }
    return length;
  }

  #consumeBody(state: Extract<State, { left: number }>, chunk: Buffer, at: number): number {
    const length = Math.min(state.left, chunk.length - at);
    const part = chunk.subarray(at, at + length);
    state.left -= length;
    if (state.name === 'extended') {
      state.parts.push(Buffer.from(part));
      if (state.left === 0) this.#onExtendedHeader(state.type, Buffer.concat(state.parts));
      return length;
    }
    this.#emit(part);
    if (state.left === 0) this.#finishEntry();
    return length;
  }

  #onBlock(block: Buffer): void {
    if (this.#state.name === 'sparse-extension') this.#onSparseExtension(block);
    else if (this.#state.name === 'sparse-map') this.#onSparseMap(this.#state, block);
    else this.#onHeaderBlock(block);
  }

  #onHeaderBlock(block: Buffer): void {
    if (block[0] === 0 && block.every((byte) => byte === 0)) {
      this.#zeroBlocks += 1;
      if (this.#zeroBlocks === 2) this.#state = { name: 'end' };
      return;
    }
    if (this.#zeroBlocks > 0) throw invalid('a header follows the end of the archive');
    const raw = parseHeader(block);
    if (raw.type === 'x' || raw.type === 'g' || raw.type === 'L' || raw.type === 'K') {
      if (raw.type === 'g') this.#globalBytes += raw.size;
      else this.#extendedBytes += raw.size;
      if (this.#extendedBytes > maxExtendedHeader || this.#globalBytes > maxExtendedHeader)
        throw invalid(`the extended headers of an entry have more than ${maxExtendedHeader} bytes`);
      this.#padding = (blockSize - (raw.size % blockSize)) % blockSize;
      this.#state = { name: 'extended', type: raw.type, parts: [], left: raw.size };
      if (raw.size === 0) this.#onExtendedHeader(raw.type, Buffer.alloc(0));
    } else if (raw.type === 'S') this.#onOldSparse(block, raw);
    else this.#onEntry(raw);
  }

  #onExtendedHeader(type: string, body: Buffer): void {
    this.#state = { name: 'header' };
    if (type === 'L' || type === 'K') {
      const zero = body.indexOf(0);
      const path = body.toString('latin1', 0, zero < 0 ? body.length : zero);
      if (type === 'L') this.#longPath = path;
      else this.#longLink = path;
      return;
    }
    const list = parsePax(body);
    for (const [key, value] of list) (type === 'g' ? this.#globals : this.#records).set(key, Buffer.from(value));
    if (type === 'g' && this.#globals.size > maxGlobals) throw invalid(`more than ${maxGlobals} global records`);
    if (type === 'x') this.#recordList = [...list];
  }

  #onOldSparse(block: Buffer, raw: RawHeader): void {
    const parts = sparseParts(block, 386, 4);
    this.#oldSparse = { raw, parts, size: tarNumber(block, 483, 12) };
    if ((block[482] ?? 0) === 0) this.#onEntry(raw);
    else this.#state = { name: 'sparse-extension' };
  }

  #onSparseExtension(block: Buffer): void {
    const old = this.#oldSparse;
    if (!old) throw invalid('the map of a sparse file is malformed');
    old.parts.push(...sparseParts(block, 0, 21));
    if (old.parts.length > 65_536) throw invalid('a sparse file has too many parts');
    if ((block[504] ?? 0) !== 0) return;
    this.#onEntry(old.raw);
  }

  /** The map of sparse format 1.0 is in the first blocks of the content: decimal numbers, one a line, the count first. */
  #onSparseMap(state: Extract<State, { name: 'sparse-map' }>, block: Buffer): void {
    state.text += block.toString('latin1');
    state.stored -= blockSize;
    if (state.text.length > maxExtendedHeader || state.stored < 0) throw invalid('the map of a sparse file is malformed');
    const lines = state.text.split('\n');
    const count = Number(lines[0]);
    if (!/^[0-9]{1,6}$/.test(lines[0] ?? '')) throw invalid('the map of a sparse file is malformed');
    if (lines.length <= 2 * count + 1) return;
    const numbers = lines.slice(1, 2 * count + 1);
    if (!numbers.every((line) => /^[0-9]{1,16}$/.test(line))) throw invalid('the map of a sparse file is malformed');
    const parts = Array.from({ length: count }, (_, index) => ({
      offset: Number(numbers[2 * index]),
      length: Number(numbers[2 * index + 1]),
    }));
    this.#startEntry(state.raw, state.stored, parts);
  }

  #onEntry(raw: RawHeader): void {
    const stored = paxNumber(this.#merged(), 'size') ?? raw.size;
    if (this.#merged().get('GNU.sparse.major')?.toString('latin1') === '1') {
      this.#padding = 0;
      this.#state = { name: 'sparse-map', text: '', raw, stored };
    } else this.#startEntry(raw, stored, this.#oldSparse?.parts ?? sparseOfRecords(this.#recordList, this.#merged()));
  }

  #startEntry(raw: RawHeader, stored: number, sparse: readonly SparsePart[] | undefined): void {
    const type = types[raw.type];
    if (type === undefined) throw invalid(`entries of type "${raw.type.replace(/[^ -~]/g, '?')}" are not supported`);
    const records = this.#merged();
    const size = this.#oldSparse?.size ?? paxNumber(records, 'GNU.sparse.realsize') ?? paxNumber(records, 'GNU.sparse.size') ?? stored;
    // sizes of other entries than files are ignored: they have no content (POSIX)
    const contentSize = type === 'file' ? stored : 0;
    this.#sparse = sparse && type === 'file' ? checkSparse(sparse, size, stored) : undefined;
    this.#sparseIndex = 0;
    this.#sparseOffset = 0;
    this.#position = 0;
    this.#handler.entry(this.#entryOf(raw, type, type === 'file' ? size : 0));
    this.#padding = (blockSize - (contentSize % blockSize)) % blockSize;
    this.#records = new Map();
    this.#extendedBytes = 0;
    this.#recordList = [];
    this.#longPath = undefined;
    this.#longLink = undefined;
    this.#oldSparse = undefined;
    this.#state = { name: 'data', left: contentSize };
    if (contentSize === 0) this.#finishEntry();
  }

  #entryOf(raw: RawHeader, type: TarEntryType, size: number): TarEntry {
    const records = this.#merged();
    const textOf = (key: string) => records.get(key)?.toString('latin1');
    const path = textOf('GNU.sparse.name') ?? textOf('path') ?? this.#longPath ?? raw.path;
    const linkPath = textOf('linkpath') ?? this.#longLink ?? raw.linkPath;
    for (const each of [path, linkPath]) {
      if (each.length > maxPath) throw invalid(`a path has more than ${maxPath} bytes`);
      if (each.includes('\u0000')) throw invalid('a path contains a zero byte');
    }
    const xattrs = new Map<string, Buffer>();
    for (const [key, value] of records) if (key.startsWith(xattrPrefix)) xattrs.set(key.slice(xattrPrefix.length), value);
    return {
      // old archives mark directories by a slash at the end
      type: type === 'file' && raw.type === '0' && path.endsWith('/') ? 'directory' : type,
      path,
      linkPath,
      mode: raw.mode & 0o7777,
      uid: paxNumber(records, 'uid') ?? raw.uid,
      gid: paxNumber(records, 'gid') ?? raw.gid,
      size,
      mtime: paxNumber(records, 'mtime', { fractions: true }) ?? raw.mtime,
      deviceMajor: raw.deviceMajor,
      deviceMinor: raw.deviceMinor,
      xattrs,
    };
  }

  #merged(): PaxRecords {
    return this.#globals.size === 0 ? this.#records : new Map([...this.#globals, ...this.#records]);
  }

  #emit(part: Buffer): void {
    if (!this.#sparse) {
      this.#handler.data(part, this.#position);
      this.#position += part.length;
      return;
    }
    let at = 0;
    while (at < part.length) {
      const current = this.#sparse[this.#sparseIndex];
      if (!current) throw invalid('the map of a sparse file does not match its size');
      const length = Math.min(current.length - this.#sparseOffset, part.length - at);
      if (length > 0) this.#handler.data(part.subarray(at, at + length), current.offset + this.#sparseOffset);
      at += length;
      this.#sparseOffset += length;
      if (this.#sparseOffset === current.length) {
        this.#sparseIndex += 1;
        this.#sparseOffset = 0;
      }
    }
  }

  #finishEntry(): void {
    this.#state = { name: 'header' };
    this.#handler.endOfEntry();
  }
}

function sparseParts(block: Buffer, offset: number, count: number): SparsePart[] {
  const parts: SparsePart[] = [];
  for (let index = 0; index < count; index += 1) {
    const at = offset + index * 24;
    if (block[at] === 0) break;
    parts.push({ offset: tarNumber(block, at, 12), length: tarNumber(block, at + 12, 12) });
  }
  return parts;
}
