import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** The number of buffered bytes per direction above which reading pauses. */
const maxBufferedBytes = 256 * 1024;

/**
 * Copies bytes between two streams in both directions, with back pressure. The end of one direction is forwarded; an error or the close of one
 * stream destroys both. Resolves when both streams are closed.
 */
export function copyBidirectional(
  a: Duplex,
  b: Duplex,
  { headA, headB, lingerMs }: { readonly headA: Buffer; readonly headB: Buffer; readonly lingerMs: number },
): Promise<void> {
  for (const stream of [a, b]) {
    // by default, sockets of servers end their writing side with their reading side
    stream.allowHalfOpen = true;
    // by default, TLS sockets delay small writes until the peer acknowledges (Nagle)
    if (stream instanceof Socket) stream.setNoDelay(true);
  }
  return new Promise((resolve) => {
    let open = 2;
    const onClosed = (other: Duplex) => {
      open -= 1;
      if (open === 0) resolve();
      else endSoon(other, lingerMs);
    };
    for (const [from, to, head] of [
      [a, b, headA],
      [b, a, headB],
    ] as const) {
      from.on('error', () => {
        from.destroy();
      });
      from.once('close', () => {
        onClosed(to);
      });
      if (head.length > 0) to.write(head);
      copyOneWay(from, to);
    }
  });
}

/** Copies like `pipe`, but writes all chunks of one event loop turn together, because TLS delivers at most 16 KiB at a time. */
function copyOneWay(from: Duplex, to: Duplex): void {
  let corked = false;
  const flush = () => {
    corked = false;
    to.uncork();
  };
  from.on('data', (chunk: Buffer) => {
    if (!corked) {
      corked = true;
      to.cork();
      setImmediate(flush);
    }
    const isBelowLimit = to.write(chunk);
    if (!isBelowLimit && to.writableLength >= maxBufferedBytes) from.pause();
  });
  to.on('drain', () => from.resume());
  from.once('end', () => to.end());
}

/** Ends a stream, and destroys it if its buffered bytes are not written within `lingerMs`. */
function endSoon(stream: Duplex, lingerMs: number): void {
  if (stream.destroyed) return;
  stream.end();
  const timer = setTimeout(() => {
    stream.destroy();
  }, lingerMs);
  timer.unref();
  stream.once('close', () => {
    clearTimeout(timer);
  });
  stream.once('finish', () => {
    stream.destroy();
  });
}
