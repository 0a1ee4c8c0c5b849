import type { Clock } from '@oarlock/kernel/clock';
import type { HeldPod, PodInfo } from '@oarlock/spi/scheduling';
import type { Refused } from './framework.ts';

const mostMs = 15 * 60_000;

/** Pods that have their node and wait at permit until every plugin that holds them lets them go, one rejects them, or time is up. */
export class HeldPods {
  readonly #held = new Map<string, HeldPod>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(key: string): HeldPod | undefined {
    return this.#held.get(key);
  }

  /** Undefined when it may go on. */
  hold(pod: PodInfo, node: string, by: ReadonlyMap<string, number>, signal: AbortSignal): Promise<Refused | undefined> {
    return new Promise((resolve) => {
      const waiting = new Set(by.keys());
      const end = (outcome: Refused | undefined) => {
        for (const timer of timers) timer.cancel();
        signal.removeEventListener('abort', stop);
        if (this.#held.get(pod.key) === held) this.#held.delete(pod.key);
        resolve(outcome);
      };
      const reject = (plugin: string, reason: string) => end({ code: 'unschedulable', reasons: [reason], plugin });
      const stop = () => end({ code: 'error', reasons: ['the scheduler is stopping'] });
      const timers = [...by].map(([plugin, ms]) =>
        this.#clock.after(Math.min(ms, mostMs), () =>
          reject(plugin, `rejected due to timeout after waiting ${Math.min(ms, mostMs) / 1000}s at plugin ${plugin}`),
        ),
      );
      const held: HeldPod = {
        pod,
        node,
        allow(plugin) {
          waiting.delete(plugin);
          if (waiting.size === 0) end(undefined);
        },
        reject,
      };
      this.#held.set(pod.key, held);
      signal.addEventListener('abort', stop, { once: true });
    });
  }
}
