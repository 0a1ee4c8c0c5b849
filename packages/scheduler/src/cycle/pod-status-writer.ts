import { objectKey } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';

interface PodStatusWriterOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

interface UnschedulableStatus {
  readonly reason: string;
  readonly message: string;
  /** The node to nominate the pod to. undefined keeps the current nomination; '' clears it. */
  readonly nominatedNodeName: string | undefined;
  /** True if `nominatedNodeName` was written during this attempt: the pod's cached version may not show it yet. */
  readonly nominationWritten: boolean;
}

/** Writes the condition PodScheduled and `nominatedNodeName` to the status of pods, in the background. */
export class PodStatusWriter {
  readonly #options: PodStatusWriterOptions;
  readonly #writes = new Set<Promise<void>>();

  constructor(options: PodStatusWriterOptions) {
    this.#options = options;
  }

  /** Sets the condition PodScheduled to False. Does nothing if the status would not change. */
  writeUnschedulable(
    pod: Pod,
    { reason, message, nominatedNodeName, nominationWritten }: UnschedulableStatus,
    spanContext: SpanContext | undefined,
  ): void {
    const old = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
    const observedGeneration = pod.metadata?.generation;
    const isSameCondition =
      old?.status === 'False' && old.reason === reason && old.message === message && old.observedGeneration === observedGeneration;
    const changesNomination =
      nominatedNodeName !== undefined && (nominationWritten || nominatedNodeName !== (pod.status?.nominatedNodeName ?? ''));
    if (isSameCondition && !changesNomination) return;
    const condition = {
      type: 'PodScheduled',
      ...(observedGeneration !== undefined && { observedGeneration }),
      status: 'False',
      reason,
      message,
      lastTransitionTime: old?.status === 'False' ? (old.lastTransitionTime ?? null) : formatTime(this.#options.clock.now()),
    };
    void this.#patch(
      pod,
      { conditions: [condition], ...(changesNomination && { nominatedNodeName: nominatedNodeName || null }) },
      spanContext,
    );
  }

  /** Writes `status.nominatedNodeName`. Resolves when the write has succeeded or failed. */
  async writeNominatedNode(pod: Pod, node: string, spanContext: SpanContext | undefined): Promise<void> {
    if (pod.status?.nominatedNodeName === node) return;
    await this.#patch(pod, { nominatedNodeName: node }, spanContext);
  }

  clearNomination(pod: Pod, spanContext: SpanContext | undefined): void {
    void this.#patch(pod, { nominatedNodeName: null }, spanContext);
  }

  /** Resolves when all writes that are in progress have ended. */
  async whenIdle(): Promise<void> {
    await Promise.all(this.#writes);
  }

  #patch(pod: Pod, status: object, spanContext: SpanContext | undefined): Promise<void> {
    const task: Promise<void> = this.#write(pod, status, spanContext).finally(() => this.#writes.delete(task));
    this.#writes.add(task);
    return task;
  }

  async #write(pod: Pod, status: object, spanContext: SpanContext | undefined): Promise<void> {
    const name = { namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '' };
    const patch = { metadata: { uid: pod.metadata?.uid }, status };
    try {
      await this.#options.client.withSpanContext(spanContext).patch(pods, name, 'strategic', patch, { subresource: 'status' });
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict'))
        this.#options.log.warn({ pod: objectKey(pod), err: error }, 'failed to write the status of a pod');
    }
  }
}
