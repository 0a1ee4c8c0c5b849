import { Decompress } from 'fzstd';
import { pipeline, Readable, Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { OciError } from '../oci-error.ts';

export type Compression = 'none' | 'gzip' | 'zstd';
/** Largest window of a zstd frame in bytes, as in the `zstd` program without `--long`. */
const maxWindow = 128 * 1024 * 1024;
const outputChunk = 256 * 1024;
/** Bytes that determine the compression, and the window of a zstd frame. */
const headerBytes = 6;

/** Detects the compression by the first bytes; fewer than 4 bytes are not compressed. */
export function compressionOf(start: Buffer): Compression {
  if (start[0] === 0x1f && start[1] === 0x8b) return 'gzip';
  if (start.length >= 4 && start.readUInt32LE(0) === 0xfd2fb528) return 'zstd';
  // a skippable frame, with which zstd archives with an index begin
  if (start.length >= 4 && (start.readUInt32LE(0) & 0xfffffff0) >>> 0 === 0x184d2a50) return 'zstd';
  return 'none';
}

/** Returns the window size in the header of a zstd frame, in bytes. RFC 8878, section 3.1.1.1. */
function windowOf(frame: Buffer): number {
  const descriptor = frame[4] ?? 0;
  if ((descriptor & 0x20) !== 0) return 0; // a single segment has the size of its content, which is limited elsewhere
  const byte = frame[5] ?? 0;
  const base = 2 ** (10 + (byte >> 3));
  return base + (base / 8) * (byte & 7);
}

/** Node has zstd from 22.15 on; older versions use a decoder in JavaScript. */
function zstdDecoder(): Transform {
  if ('createZstdDecompress' in zlib)
    return (zlib as { createZstdDecompress(options: { chunkSize: number }): Transform }).createZstdDecompress({ chunkSize: outputChunk });
  let checked = false;
  let failure: Error | undefined;
  const decoder = new Decompress((data) => transform.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength)));
  const attempt = (work: () => void, done: (error?: Error | null) => void) => {
    try {
      work();
      done(failure);
    } catch (error) {
      done(error as Error);
    }
  };
  const transform = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (!checked && chunk.length >= 6 && windowOf(chunk) > maxWindow) failure = new Error(`the window exceeds ${maxWindow} bytes`);
      checked = true;
      attempt(() => failure ?? decoder.push(chunk), done);
    },
    flush(done) {
      attempt(() => decoder.push(new Uint8Array(0), true), done);
    },
  });
  return transform;
}

const decoderOf = (compression: Compression): Transform | undefined => {
  if (compression === 'gzip') return zlib.createGunzip({ chunkSize: outputChunk });
  return compression === 'zstd' ? zstdDecoder() : undefined;
};

/** Converts an error of a decoder; other errors, such as those of the file system, are returned as they are. */
export function decompressionError(error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  const ofDecoder = code === undefined || code.startsWith('Z_') || code.startsWith('ZSTD_') || code.startsWith('ERR_');
  if (error instanceof OciError || !ofDecoder) return error;
  return new OciError('InvalidContent', `invalid compressed data: ${message}`, { cause: error });
}

/** Yields the bytes of a stream, decompressed according to its first bytes. Errors of the decoder are converted by `decompressionError`. */
export async function* decompressed(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const chunks = source[Symbol.asyncIterator]();
  let first = Buffer.alloc(0);
  let isEnded = false;
  while (first.length < headerBytes && !isEnded) {
    const { done = false, value } = await chunks.next();
    isEnded = done;
    if (!done) first = Buffer.concat([first, value as Buffer]);
  }
  async function* all(): AsyncGenerator<Buffer> {
    yield first;
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value;
  }
  try {
    const decoder = decoderOf(compressionOf(first));
    if (!decoder) yield* all();
    else {
      const input = Readable.from(all());
      // the reader of the decoder receives the errors
      pipeline(input, decoder, () => {});
      for await (const chunk of decoder) yield chunk as Buffer;
    }
  } finally {
    await chunks.return?.();
  }
}
