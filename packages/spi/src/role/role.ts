import { slot } from '@oarlock/kernel/slot';

export type Health = { readonly healthy: true } | { readonly healthy: false; readonly reason: string };

/**
 * A component that a process runs: apiserver, controllers, scheduler, kubelet, proxy. It is started and stopped by the lifecycle of
 * its plugin.
 */
export interface Role {
  readonly name: string;
  /** Returns the current health. Cheap and without side effects: called for /livez and `oarlock status`, also before `start` and after `stop`. */
  checkHealth(): Health | Promise<Health>;
  /**
   * Resolves when the role works, which happens once, soon after `start`. Rejects with the reason if the role can never work, or when the signal
   * aborts.
   */
  waitUntilReady?(signal: AbortSignal): Promise<void>;
}

export const Roles = slot.chain<Role>('role/v1');
