import { slot } from '@oarlock/kernel/slot';

export type Health = { readonly healthy: true } | { readonly healthy: false; readonly because: string };

/** What a process runs: apiserver, controllers, scheduler, kubelet, proxy. One lifecycle for all: `start` and `stop` of the plugin. */
export interface Role {
  readonly name: string;
  /** Cheap and without side effects: it is asked for /livez and `oarlock status`. */
  health(): Health | Promise<Health>;
  /** Has begun to do its work: resolves once, soon after `start`, or rejects with the reason why it never will. */
  ready?(signal: AbortSignal): Promise<void>;
}

export const Roles = slot.chain<Role>('role/v1');
