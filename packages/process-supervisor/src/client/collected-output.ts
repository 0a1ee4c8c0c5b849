import { PassThrough } from 'node:stream';

const maxBytes = 16 * 1024 * 1024;

/** Returns a stream that collects the first 16 MiB of its input and discards the rest. */
export function collectedOutput(): { readonly stream: PassThrough; bytes(): Buffer } {
  const chunks: Buffer[] = [];
  let size = 0;
  const stream = new PassThrough();
  stream.on('data', (chunk: Buffer) => {
    const kept = chunk.subarray(0, maxBytes - size);
    size += kept.length;
    if (kept.length > 0) chunks.push(kept);
  });
  return { stream, bytes: () => Buffer.concat(chunks) };
}
