import { objectKey } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';

interface Parts {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Writes on pods why they have no node, and on which one room is being made for them; in the background. */
export class PodReporter {
  readonly #parts: Parts;
  readonly #writing = new Set<Promise<void>>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * `nominated`: undefined leaves it as it is, '' takes it back. Equal conditions are not written again. `announced`: `nominated` was written for this
   * attempt, which `pod` need not show yet.
   */
  refused(pod: Pod, reason: string, message: string, cause: Cause | undefined, nominated?: string, announced = false): void {
    const old = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
    const observedGeneration = pod.metadata?.generation;
    const same =
      old?.status === 'False' && old.reason === reason && old.message === message && old.observedGeneration === observedGeneration;
    const moved = nominated !== undefined && (announced || nominated !== (pod.status?.nominatedNodeName ?? ''));
    if (same && !moved) return;
    const condition = {
      type: 'PodScheduled',
      ...(observedGeneration !== undefined && { observedGeneration }),
      status: 'False',
      reason,
      message,
      lastTransitionTime: old?.status === 'False' ? (old.lastTransitionTime ?? null) : formatTime(this.#parts.clock.now()),
    };
    void this.#patch(pod, { conditions: [condition], ...(moved && { nominatedNodeName: nominated || null }) }, cause);
  }

  /** Tells where a pod goes before it is there. Resolves when that is written, or cannot be. */
  async nominated(pod: Pod, node: string, cause: Cause | undefined): Promise<void> {
    if (pod.status?.nominatedNodeName === node) return;
    await this.#patch(pod, { nominatedNodeName: node }, cause);
  }

  clearNomination(pod: Pod, cause: Cause | undefined): void {
    void this.#patch(pod, { nominatedNodeName: null }, cause);
  }

  /** What was begun has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#writing);
  }

  #patch(pod: Pod, status: object, cause: Cause | undefined): Promise<void> {
    const task: Promise<void> = this.#write(pod, status, cause).finally(() => this.#writing.delete(task));
    this.#writing.add(task);
    return task;
  }

  async #write(pod: Pod, status: object, cause: Cause | undefined): Promise<void> {
    const name = { namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '' };
    const patch = { metadata: { uid: pod.metadata?.uid }, status };
    try {
      await this.#parts.client.causedBy(cause).patch(pods, name, 'strategic', patch, { subresource: 'status' });
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict'))
        this.#parts.log.warn({ pod: objectKey(pod), err: error }, 'the status of a pod could not be written');
    }
  }
}
