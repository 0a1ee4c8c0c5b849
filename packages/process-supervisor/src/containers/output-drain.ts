import type { Readable } from 'node:stream';
import type { Clock } from '@oarlock/primitives/clock';

/**
 * Waits for the end of outputs whose process has exited but which other processes may still hold open. Returns true when all have ended;
 * false if they delivered nothing for `idleMs` while they were being read. A paused output, whose reader is slow, is waited for.
 */
export async function drainOutputs(outputs: readonly Readable[], clock: Clock, idleMs: number): Promise<boolean> {
  let chunks = 0;
  const count = () => {
    chunks++;
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
      const before = chunks;
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
      if (chunks === before && !open().some((output) => output.isPaused())) return false;
    }
  } finally {
    for (const output of outputs) output.off('data', count);
  }
}
