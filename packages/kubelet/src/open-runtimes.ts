import { Backoff } from '@oarlock/client/backoff';
import type { KubeletContext, PodRuntime } from './node-context.ts';

/** Opens all runtimes, one after the other. A runtime that is not there yet may come: each is tried until it answers, or the kubelet stops. */
export async function openRuntimes(
  runtimes: Iterable<PodRuntime>,
  { clock, log, random, signal }: Pick<KubeletContext, 'clock' | 'log' | 'random' | 'signal'>,
): Promise<void> {
  for (const { hub } of runtimes) {
    const backoff = new Backoff({ firstMs: 200, longestMs: 5000, jitter: 0.2, random });
    for (let open = false; !open; ) {
      try {
        await hub.open(signal);
        open = true;
      } catch (error) {
        signal.throwIfAborted();
        log[backoff.failures > 2 ? 'warn' : 'debug']({ err: error, runtime: hub.handler }, 'the runtime does not answer; trying again');
        await clock.sleep(backoff.next(), signal);
      }
    }
  }
}
