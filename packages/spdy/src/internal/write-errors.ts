import type { Duplex } from 'node:stream';

/**
 * Node ends a socket at the first write that fails, with all that was not read from it: a peer that said its last words and went would be
 * cut off by whatever is written then. So a failed write stays undone; reading goes on to the end, which comes soon.
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
