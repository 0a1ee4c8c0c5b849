import type { IncomingMessage } from 'node:http';
import type { Clock, Timer } from '../clock.ts';

/** A body brings at least this many bytes in each window of this many milliseconds: 1 KiB per second. */
export const bodyProgress = { windowMs: 60_000, minBytes: 60 * 1024 } as const;

/**
 * Destroys a body that brings too few bytes in a window: a sender of single bytes is never idle, and could hold its reader for days. A body whose reader has
 * not taken what arrived is not slow.
 */
export function requireProgress(body: IncomingMessage, clock: Clock): void {
  const { windowMs, minBytes } = bodyProgress;
  let seen = body.socket?.bytesRead ?? 0;
  let timer: Timer;
  const arm = () => {
    timer = clock.after(windowMs, () => {
      const read = body.socket?.bytesRead ?? seen;
      if (read - seen < minBytes && body.readableLength === 0)
        body.destroy(new Error(`the server sent less than ${minBytes} bytes within ${windowMs} ms`));
      else {
        seen = read;
        arm();
      }
    });
  };
  arm();
  body.once('close', () => timer.cancel());
}

/** Destroys a body that has not ended after this time, for bodies that are read into memory. */
export function requireEnd(body: IncomingMessage, { clock, withinMs }: { readonly clock: Clock; readonly withinMs: number }): void {
  const timer = clock.after(withinMs, () => body.destroy(new Error(`the response did not end within ${withinMs} ms`)));
  body.once('close', () => timer.cancel());
}
