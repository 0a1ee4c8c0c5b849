import type { KubeObject } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import { formatTime } from '@oarlock/api/values/time';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, EventRecorderFactory } from '@oarlock/spi/client';
import type { Handle, PodInfo } from '@oarlock/spi/scheduling';
import { EventRecorders } from '../helper/event-recorders.ts';

/** The pod or pod group for which pods are preempted. */
export interface Preemptor {
  readonly schedulerName: string;
  /** Text for events: the kind, the UID and the nominated node. */
  readonly description: string;
  readonly object: KubeObject;
  /** Keys of the pods that are gated until the victims are deleted. */
  readonly keys: readonly string[];
}

interface PreemptionExecutorOptions {
  readonly client: Client;
  readonly events: EventRecorderFactory;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Deletes the victims of preemptions in the background (upstream's preemption.Executor). */
export class PreemptionExecutor {
  readonly #options: PreemptionExecutorOptions;
  readonly #recorders: EventRecorders;
  /** Keys of the pods whose victims are being deleted. */
  readonly #preempting = new Set<string>();
  #handle: Handle | undefined;

  constructor(options: PreemptionExecutorOptions) {
    this.#options = options;
    this.#recorders = new EventRecorders(options.events);
  }

  setHandle(handle: Handle): void {
    this.#handle = handle;
  }

  isPreempting(key: string): boolean {
    return this.#preempting.has(key);
  }

  /**
   * Deletes the victims, the least important one last and only if the others could be deleted. Skips victims that are terminating.
   * `isPreempting` returns true for the preemptor's pods until all victims except the last are deleted. Never rejects.
   */
  async preemptPods(victims: readonly PodInfo[], preemptor: Preemptor): Promise<void> {
    const { keys, description } = preemptor;
    const remaining = victims.filter(({ pod }) => pod.metadata?.deletionTimestamp === undefined);
    for (const key of keys) this.#preempting.add(key);
    try {
      await Promise.all(remaining.slice(0, -1).map((victim) => this.#preemptPod(victim, preemptor)));
      // the preemptor must not be gated when the deletion of the last victim requeues it
      this.#ungate(keys);
      await Promise.all(remaining.slice(-1).map((victim) => this.#preemptPod(victim, preemptor)));
    } catch (error) {
      this.#ungate(keys);
      this.#options.log.warn({ preemptor: description, err: error }, 'failed to delete the victims of a preemption');
      for (const key of keys) this.#handle?.activate(key);
    }
  }

  #ungate(keys: readonly string[]): void {
    for (const key of keys) this.#preempting.delete(key);
  }

  /** Returns a victim that waits at permit or is in preBind to the queue; sets DisruptionTarget of any other victim and deletes it. */
  async #preemptPod(victim: PodInfo, { schedulerName, description, object }: Preemptor): Promise<void> {
    const waitingPod = this.#handle?.waitingPod(victim.key);
    const podInPreBind = this.#handle?.podInPreBind(victim.key);
    if (waitingPod !== undefined) waitingPod.preempt('preempted');
    else if (podInPreBind !== undefined) podInPreBind.cancel('preempted by DefaultPreemption');
    else if (!(await this.#deletePod(victim.pod, schedulerName))) return;
    const action = { name: 'Preempting', related: object };
    this.#recorders.of(schedulerName).event(victim.pod, 'Normal', 'Preempted', `Preempted by ${description}`, undefined, action);
  }

  /** Returns false if the pod does not exist any more. */
  async #deletePod({ metadata, status }: Pod, schedulerName: string): Promise<boolean> {
    const { client, clock } = this.#options;
    const name = { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' };
    const condition = {
      type: 'DisruptionTarget',
      ...(metadata?.generation !== undefined && { observedGeneration: metadata.generation }),
      status: 'True',
      reason: 'PreemptionByScheduler',
      message: `${schedulerName}: preempting to accommodate a higher priority pod`,
      lastTransitionTime: formatTime(clock.now()),
    };
    const patch = { metadata: { uid: metadata?.uid }, status: { conditions: [condition] } };
    try {
      if (!status?.conditions?.some(({ type, reason }) => type === condition.type && reason === condition.reason))
        await client.patch(pods, name, 'strategic', patch, { subresource: 'status' });
      await client.delete(pods, name, metadata?.uid === undefined ? {} : { preconditions: { uid: metadata.uid } });
      return true;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return false;
      throw error;
    }
  }
}
