import { PassThrough } from 'node:stream';

const most = 16 * 1024 * 1024;

/** Keeps the first 16 MiB and takes the rest. */
export function collect(): { readonly stream: PassThrough; bytes(): Buffer } {
  const chunks: Buffer[] = [];
  let size = 0;
  const stream = new PassThrough();
  stream.on('data', (chunk: Buffer) => {
    const kept = chunk.subarray(0, most - size);
    size += kept.length;
    if (kept.length > 0) chunks.push(kept);
  });
  return { stream, bytes: () => Buffer.concat(chunks) };
}
