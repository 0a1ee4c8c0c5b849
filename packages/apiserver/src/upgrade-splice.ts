import type { Duplex } from 'node:stream';

/**
 * Joins two byte streams: what comes out of one goes into the other, no faster than it is taken. The end of one direction is passed
 * on alone; an error or a disappearance of either end destroys both. Resolves when both are gone.
 */
export function splice(
  a: Duplex,
  b: Duplex,
  { headA, headB, lingerMs }: { readonly headA: Buffer; readonly headB: Buffer; readonly lingerMs: number },
): Promise<void> {
  // sockets of servers end their writing side with their reading side unless told otherwise
  a.allowHalfOpen = true;
  b.allowHalfOpen = true;
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
      from.pipe(to);
    }
  });
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
