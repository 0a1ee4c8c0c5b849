import type { Readable } from 'node:stream';
import type { Clock } from '@oarlock/kernel/clock';

/**
 * For outputs whose process has ended but which something may still hold open. True when all are at their end; false when they
 * brought nothing for `idleMs` although they were being read. One that is paused, because its reader is slow, is waited for.
 */
export async function drained(outputs: readonly Readable[], clock: Clock, idleMs: number): Promise<boolean> {
  let brought = 0;
  const count = () => {
    brought++;
  };
  for (const output of outputs) output.on('data', count);
  const open = () => outputs.filter((output) => !output.closed);
  const closed = Promise.all(
    open().map(
      (output) =>
        new Promise<void>((resolve) => {
          output.once('close', resolve);
        }),
    ),
  ).then(() => true);
  try {
    for (;;) {
      const before = brought;
      const stop = new AbortController();
      const done = await Promise.race([
        closed,
        clock.sleep(idleMs, stop.signal).then(
          () => false,
          () => false,
        ),
      ]);
      stop.abort();
      if (done) return true;
      if (brought === before && !open().some((output) => output.isPaused())) return false;
    }
  } finally {
    for (const output of outputs) output.off('data', count);
  }
}
