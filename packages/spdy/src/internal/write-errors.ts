import type { Duplex } from 'node:stream';

/**
 * Keeps a socket readable after a write error. Node.js destroys a socket on the first failed write and discards unread data: the last data
 * of a peer that closed would be lost. Here a failed write is reported and dropped; reading continues to the end.
 */
export function keepReadingAfterWriteError(socket: Duplex, failed: () => void): void {
  const write = socket._write.bind(socket);
  const writev = socket._writev?.bind(socket);
  const unlessFailed = (done: (error?: Error | null) => void) => (error?: Error | null) => {
    if (error) failed();
    else done();
  };
  socket._write = (chunk: unknown, encoding, done) => write(chunk, encoding, unlessFailed(done));
  if (writev) socket._writev = (chunks, done) => writev(chunks, unlessFailed(done));
}
