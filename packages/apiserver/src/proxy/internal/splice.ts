import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** Bytes that may wait in one direction before no more is read for it. */
const enough = 256 * 1024;

/**
 * Joins two byte streams: what comes out of one goes into the other, no faster than it is taken. The end of one direction is passed
 * on alone; an error or a disappearance of either end destroys both. Resolves when both are gone.
 */
export function copyBidirectional(
  a: Duplex,
  b: Duplex,
  { headA, headB, lingerMs }: { readonly headA: Buffer; readonly headB: Buffer; readonly lingerMs: number },
): Promise<void> {
  for (const one of [a, b]) {
    // sockets of servers end their writing side with their reading side unless told otherwise
    one.allowHalfOpen = true;
    // TLS sockets gather what is small until the other side has answered, unless told otherwise
    if (one instanceof Socket) one.setNoDelay(true);
  }
  return new Promise((resolve) => {
    let open = 2;
    const gone = (other: Duplex) => {
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
        gone(to);
      });
      if (head.length > 0) to.write(head);
      copyOneWay(from, to);
    }
  });
}

/** As `pipe`, but what comes in one turn of the event loop goes out in one piece: TLS hands out 16 KiB at a time. */
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
    const wants = to.write(chunk);
    if (!wants && to.writableLength >= enough) from.pause();
  });
  to.on('drain', () => from.resume());
  from.once('end', () => to.end());
}

/** What was written to a stream whose other end is gone may still be on its way; it does not get forever. */
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
