import type { Clock } from '@oarlock/primitives/clock';
import type { WaitingPod, PodInfo } from '@oarlock/spi/scheduling';
import type { PluginStatus } from './plugin-status.ts';

/** Maximum time in milliseconds that a pod waits at permit, as upstream. */
const maxTimeoutMs = 15 * 60_000;

/**
 * Assumed pods that wait at permit. A pod waits until every plugin that returned `wait` allows the pod, a plugin rejects the pod, or a plugin's
 * timeout expires.
 */
export class WaitingPods {
  readonly #pods = new Map<string, WaitingPod>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(key: string): WaitingPod | undefined {
    return this.#pods.get(key);
  }

  /**
   * Makes a pod wait at permit; `timeouts` are in milliseconds by plugin name. Resolves with undefined if the pod is allowed, otherwise with the
   * rejection.
   */
  waitOnPermit(pod: PodInfo, node: string, timeouts: ReadonlyMap<string, number>, signal: AbortSignal): Promise<PluginStatus | undefined> {
    return new Promise((resolve) => {
      const pendingPlugins = new Set(timeouts.keys());
      const end = (status: PluginStatus | undefined) => {
        for (const timer of timers) timer.cancel();
        signal.removeEventListener('abort', stop);
        if (this.#pods.get(pod.key) === waitingPod) this.#pods.delete(pod.key);
        resolve(status);
      };
      const reject = (plugin: string, reason: string) => end({ code: 'unschedulable', reasons: [reason], plugin });
      const stop = () => end({ code: 'error', reasons: ['the scheduler is stopping'] });
      const timers = [...timeouts].map(([plugin, ms]) =>
        this.#clock.after(Math.min(ms, maxTimeoutMs), () =>
          reject(plugin, `rejected due to timeout after waiting ${Math.min(ms, maxTimeoutMs) / 1000}s at plugin ${plugin}`),
        ),
      );
      const waitingPod: WaitingPod = {
        pod,
        node,
        allow(plugin) {
          pendingPlugins.delete(plugin);
          if (pendingPlugins.size === 0) end(undefined);
        },
        reject,
        // without a plugin, whose events the pod would wait for
        preempt: (reason) => end({ code: 'unschedulable', reasons: [reason] }),
      };
      this.#pods.set(pod.key, waitingPod);
      signal.addEventListener('abort', stop, { once: true });
    });
  }
}
