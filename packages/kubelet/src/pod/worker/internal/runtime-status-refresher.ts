import type { PodRecord } from '../../pod-record.ts';
import type { SyncPass } from '../../sync-pass.ts';
import type { PodLifecycleListener } from '../../../runtime/pleg.ts';
import { readTerminationMessages } from './termination-message.ts';

/** Tracks which runtime statuses of one pod are stale, and reads them from the runtime in the next pass. */
export class RuntimeStatusRefresher {
  readonly #record: PodRecord;
  readonly #listener: PodLifecycleListener;
  #staleContainers: Set<string> | 'all' | undefined;

  constructor(record: PodRecord, listener: PodLifecycleListener) {
    this.#record = record;
    this.#listener = listener;
  }

  /** Marks the status of a container stale, or that of the whole pod if `containerId` is undefined. */
  invalidate(containerId: string | undefined): void {
    if (containerId === undefined) this.#staleContainers = 'all';
    else if (this.#staleContainers === undefined) this.#staleContainers = new Set([containerId]);
    else if (this.#staleContainers !== 'all') this.#staleContainers.add(containerId);
  }

  /** Reads the stale statuses from the runtime, and the termination messages of exited containers. */
  async refresh({ signal }: SyncPass): Promise<void> {
    const { runtime, state, uid } = this.#record;
    const stale = this.#staleContainers;
    this.#staleContainers = undefined;
    if (!runtime) return;
    try {
      if (stale === 'all') await runtime.pleg.reload(this.#listener, uid, signal);
      else
        for (const id of stale ?? []) {
          const status = await runtime.pleg.containerStatus(id, signal);
          if (status) state.setContainer(status);
          else state.removeContainer(id);
        }
    } catch (error) {
      this.#staleContainers = 'all';
      throw error;
    }
    await readTerminationMessages(this.#record);
  }
}
