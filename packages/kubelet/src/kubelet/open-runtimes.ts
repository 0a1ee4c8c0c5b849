import { Backoff } from '@oarlock/primitives/backoff';
import type { ProcessContext, PodRuntime } from '../pod/node-context.ts';

/** Connects to the runtimes one after the other. Retries each runtime until it answers, or the kubelet stops. */
export async function connectRuntimes(
  runtimes: Iterable<PodRuntime>,
  { clock, log, random, signal }: Pick<ProcessContext, 'clock' | 'log' | 'random' | 'signal'>,
): Promise<void> {
  for (const { pleg } of runtimes) {
    const backoff = new Backoff({ firstMs: 200, longestMs: 5000, jitter: 0.2, random });
    for (let open = false; !open; ) {
      try {
        await pleg.open(signal);
        open = true;
      } catch (error) {
        signal.throwIfAborted();
        log[backoff.failures > 2 ? 'warn' : 'debug']({ err: error, runtime: pleg.handler }, 'the runtime does not respond; retrying');
        await clock.sleep(backoff.next(), signal);
      }
    }
  }
}
