import { waitForRetry } from './watch.ts';

const maxRepeats = 3;
const repeatMs = 500;

/**
 * Repeats a read that got no answer. Browsers end all requests of a connection when the network of the machine changes, also those to the machine itself.
 * @throws the error of the read if the server answered with it, or after three repeats
 */
export async function repeatUnanswered<T>(
  read: () => Promise<T>,
  signal: AbortSignal,
  wait: (ms: number, signal: AbortSignal) => Promise<void> = waitForRetry,
): Promise<T> {
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await read();
    } catch (error) {
      // fetch reports a lost connection as a TypeError
      if (!(error instanceof TypeError) || signal.aborted || repeats === maxRepeats) throw error;
    }
    await wait(repeatMs, signal);
  }
}
