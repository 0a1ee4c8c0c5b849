import type { KubeObject } from '@oarlock/api/object';
import { pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import { slowStartBatch, type ControllerExpectations } from '../expectations/controller-expectations.ts';
import { isNamespaceTerminating } from '../errors/namespace-terminating.ts';
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

  constructor(recorder: EventRecorder, expectations: ControllerExpectations) {
    this.#recorder = recorder;
    this.#expectations = expectations;
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
        this.#expectations.creationFailed(key);
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
          this.#expectations.deletionObserved(key, uid);
          if (isStatus(failure, 'NotFound', 'Conflict')) return;
          this.#recorder.event(owner, 'Warning', 'FailedDelete', `Error deleting: ${(failure as Error).message}`);
          throw failure;
        }
      }),
    );
    return results.find((result) => result.status === 'rejected')?.reason;
  }
}
