import { isControlledBy, objectKey, type KubeObject } from '@oarlock/api/object';
import { pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Selector } from '@oarlock/api/selectors/label-selector';
import type { Client, EventRecorder, Lister } from '@oarlock/spi/client';
import { slowStartBatch, type ControllerExpectations } from '../expectations/controller-expectations.ts';
import { isNamespaceTerminating } from '../errors/namespace-terminating.ts';
import { isOutcomeUnknown } from '../errors/unknown-outcome.ts';
import { objectName } from '../objects/object-identity.ts';

interface PodControlOptions {
  /** Key of the owner in the controller's expectations. */
  readonly key: string;
  readonly owner: KubeObject;
  readonly client: Client;
}

/** Creates and deletes the pods of an owner. Updates the controller's expectations and records upstream's events. */
export class PodControl {
  readonly #recorder: EventRecorder;
  readonly #expectations: ControllerExpectations;
  readonly #pods: Pick<Lister<Pod>, 'get'>;

  constructor(recorder: EventRecorder, expectations: ControllerExpectations, pods: Pick<Lister<Pod>, 'get'>) {
    this.#recorder = recorder;
    this.#expectations = expectations;
    this.#pods = pods;
  }

  /**
   * Reads the pods of an owner if the outcome of a request for its pods is unknown. A retry based on the cache could create the same pods again,
   * because the connection that lost the response is often the one of the watch.
   */
  async resolveOutcome({ key, owner, client }: PodControlOptions, selector: Selector): Promise<void> {
    if (!this.#expectations.isUncertain(key)) return;
    const namespace = owner.metadata?.namespace ?? '';
    const { items } = await client.list(podResource, { namespace, labelSelector: selector.toString() });
    const owned = items.filter((pod) => isControlledBy(pod, owner));
    const unseen = owned.filter((pod) => this.#pods.get(objectKey(pod))?.metadata?.uid !== pod.metadata?.uid);
    const alive = owned.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
    this.#expectations.resolve(key, unseen.length, new Set(alive.map(({ metadata }) => metadata?.uid ?? '')));
  }

  /**
   * Creates pods in growing batches, so that a pod template that the API server rejects does not cause hundreds of requests. Returns the first
   * error.
   */
  async create({ key, owner, client }: PodControlOptions, count: number, podOf: (index: number) => Pod): Promise<unknown> {
    this.#expectations.expectCreations(key, count);
    let started = 0;
    const { error } = await slowStartBatch(count, async (index) => {
      started += 1;
      try {
        const created = await client.create(podResource, podOf(index));
        this.#recorder.event(owner, 'Normal', 'SuccessfulCreate', `Created pod: ${created.metadata?.name}`);
      } catch (failure) {
        if (isOutcomeUnknown(failure)) this.#expectations.markUncertain(key);
        else this.#expectations.creationFailed(key);
        if (isNamespaceTerminating(failure)) return;
        this.#recorder.event(owner, 'Warning', 'FailedCreate', `Error creating: ${(failure as Error).message}`);
        throw failure;
      }
    });
    for (let skipped = count - started; skipped > 0; skipped--) this.#expectations.creationFailed(key);
    return error;
  }

  /** Deletes all pods concurrently. Returns the first error; a pod that is absent or was replaced is not an error. */
  async delete({ key, owner, client }: PodControlOptions, pods: readonly Pod[]): Promise<unknown> {
    for (const pod of pods) this.#expectations.expectDeletion(key, pod.metadata?.uid ?? '');
    const results = await Promise.allSettled(
      pods.map(async (pod) => {
        const uid = pod.metadata?.uid ?? '';
        try {
          await client.delete(podResource, objectName(pod), { preconditions: { uid } });
          this.#recorder.event(owner, 'Normal', 'SuccessfulDelete', `Deleted pod: ${pod.metadata?.name}`);
        } catch (failure) {
          if (isOutcomeUnknown(failure)) this.#expectations.markUncertain(key);
          else this.#expectations.deletionObserved(key, uid);
          if (isStatus(failure, 'NotFound', 'Conflict')) return;
          this.#recorder.event(owner, 'Warning', 'FailedDelete', `Error deleting: ${(failure as Error).message}`);
          throw failure;
        }
      }),
    );
    return results.find((result) => result.status === 'rejected')?.reason;
  }
}
