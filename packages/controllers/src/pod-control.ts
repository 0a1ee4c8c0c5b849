import type { KubeObject } from '@oarlock/api/object';
import { pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import { slowStart, type Expectations } from './expectations.ts';
import { isNamespaceTerminating, nameOf } from './pod-template.ts';

interface Work {
  /** The owner's key. */
  readonly key: string;
  readonly owner: KubeObject;
  readonly client: Client;
}

/** Creates and deletes the pods of an owner, with expectations and upstream's events. */
export class PodControl {
  readonly #recorder: EventRecorder;
  readonly #expectations: Expectations;

  constructor(recorder: EventRecorder, expectations: Expectations) {
    this.#recorder = recorder;
    this.#expectations = expectations;
  }

  /** In growing batches, so that what is refused is not tried hundreds of times. Returns the first failure. */
  async create({ key, owner, client }: Work, count: number, podOf: (index: number) => Pod): Promise<unknown> {
    this.#expectations.creations(key, count);
    let begun = 0;
    const { error } = await slowStart(count, async (index) => {
      begun += 1;
      try {
        const made = await client.create(podResource, podOf(index));
        this.#recorder.event(owner, 'Normal', 'SuccessfulCreate', `Created pod: ${made.metadata?.name}`);
      } catch (failure) {
        this.#expectations.creationFailed(key);
        if (isNamespaceTerminating(failure)) return;
        this.#recorder.event(owner, 'Warning', 'FailedCreate', `Error creating: ${(failure as Error).message}`);
        throw failure;
      }
    });
    for (let skipped = count - begun; skipped > 0; skipped--) this.#expectations.creationFailed(key);
    return error;
  }

  /** All at once. Returns the first failure; a pod that is gone already is none. */
  async delete({ key, owner, client }: Work, doomed: readonly Pod[]): Promise<unknown> {
    for (const pod of doomed) this.#expectations.deletion(key, pod.metadata?.uid ?? '');
    const results = await Promise.allSettled(
      doomed.map(async (pod) => {
        const uid = pod.metadata?.uid ?? '';
        try {
          await client.delete(podResource, nameOf(pod), { preconditions: { uid } });
          this.#recorder.event(owner, 'Normal', 'SuccessfulDelete', `Deleted pod: ${pod.metadata?.name}`);
        } catch (failure) {
          this.#expectations.deleted(key, uid);
          if (isStatus(failure, 'NotFound', 'Conflict')) return;
          this.#recorder.event(owner, 'Warning', 'FailedDelete', `Error deleting: ${(failure as Error).message}`);
          throw failure;
        }
      }),
    );
    return results.find((result) => result.status === 'rejected')?.reason;
  }
}
