import { Decompress } from 'fzstd';
import { pipeline, Readable, Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { OciError } from '../oci-error.ts';
import { ZstdFrames } from './zstd-frames.ts';

export type Compression = 'none' | 'gzip' | 'zstd';
const outputChunk = 256 * 1024;
/**
 * Bytes that the decoder in JavaScript gets at once: it returns all that they expand to, at most 32 MiB, in blocks of four bytes for 128 KiB. The reader of
 * the stream holds it back between pieces.
 */
const zstdPiece = 1024;
/** Bytes that determine the compression. */
const headerBytes = 4;

/** Detects the compression by the first bytes; fewer than 4 bytes are not compressed. */
export function compressionOf(start: Buffer): Compression {
  if (start[0] === 0x1f && start[1] === 0x8b) return 'gzip';
  if (start.length >= 4 && start.readUInt32LE(0) === 0xfd2fb528) return 'zstd';
  // a skippable frame, with which zstd archives with an index begin
  if (start.length >= 4 && (start.readUInt32LE(0) & 0xfffffff0) >>> 0 === 0x184d2a50) return 'zstd';
  return 'none';
}

const hasZstd = 'createZstdDecompress' in zlib;

async function* piecesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) for (let at = 0; at < chunk.length; at += zstdPiece) yield chunk.subarray(at, at + zstdPiece);
}

/** Node has zstd from 22.15 on; older versions use a decoder in JavaScript. */
function zstdDecoder(): Transform {
  if (hasZstd)
    return (zlib as unknown as { createZstdDecompress(options: { chunkSize: number }): Transform }).createZstdDecompress({
      chunkSize: outputChunk,
    });
  const frames = new ZstdFrames();
  const decoder = new Decompress((data) => transform.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength)));
  const attempt = (work: () => void, done: (error?: Error | null) => void) => {
    try {
      work();
      done();
    } catch (error) {
      done(error as Error);
    }
  };
  const transform = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      attempt(() => {
        frames.push(chunk);
        decoder.push(chunk);
      }, done);
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
  const compression = compressionOf(first);
  async function* all(): AsyncGenerator<Buffer> {
    yield first;
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value;
  }
  try {
    const decoder = decoderOf(compression);
    if (!decoder) yield* all();
    else {
      const input = Readable.from(compression === 'zstd' && !hasZstd ? piecesOf(all()) : all());
      // the reader of the decoder receives the errors
      pipeline(input, decoder, () => {});
      for await (const chunk of decoder) yield chunk as Buffer;
    }
  } finally {
    await chunks.return?.();
  }
}
