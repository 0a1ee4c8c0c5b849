import { Writable } from 'node:stream';

const maxBytes = 16 * 1024 * 1024;

/** Returns a stream that collects the first 16 MiB of its input and discards the rest. */
export function collectedOutput(): { readonly stream: Writable; bytes(): Buffer } {
  const chunks: Buffer[] = [];
  let remaining = maxBytes;
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      const kept = chunk.subarray(0, remaining);
      remaining -= kept.length;
      if (kept.length > 0) chunks.push(kept);
      done();
    },
  });
  return { stream, bytes: () => Buffer.concat(chunks) };
}
