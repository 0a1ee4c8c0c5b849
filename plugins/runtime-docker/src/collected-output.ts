import { Writable } from 'node:stream';

const most = 16 * 1024 * 1024;

/** Keeps the first 16 MiB and takes the rest. */
export function collected(): { readonly stream: Writable; bytes(): Buffer } {
  const chunks: Buffer[] = [];
  let room = most;
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      const kept = chunk.subarray(0, room);
      room -= kept.length;
      if (kept.length > 0) chunks.push(kept);
      done();
    },
  });
  return { stream, bytes: () => Buffer.concat(chunks) };
}
