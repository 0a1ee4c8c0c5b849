import type { KubeObject } from '@oarlock/api/object';
import { persistentVolumeClaims, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { Client, EventRecorder, Informer } from '@oarlock/spi/client';
import { aggregate } from '../../errors/aggregate.ts';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { isClaimStale, claimOwnerReferences } from './claim-retention.ts';
import { claimsOf, withIdentity } from './pod-identity.ts';

/** The pod of a StatefulSet, its ordinal, and the client of this reconcile. */
export interface StatefulPodRequest {
  readonly pod: Pod;
  readonly ordinal: number;
  readonly client: Client;
}

/** Creates, updates and deletes the pods and PersistentVolumeClaims of a StatefulSet, and records events (StatefulPodControl upstream). */
export class StatefulPodControl {
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #recorder: EventRecorder;

  constructor(claims: Informer<KubeObject>, recorder: EventRecorder) {
    this.#claims = claims as Informer<PersistentVolumeClaim>;
    this.#recorder = recorder;
  }

  /** Creates the PersistentVolumeClaims of an ordinal, then the pod, and sets the owners of the claims. */
  async create(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<Pod> {
    const created = await this.#withEvent(set, {
      verb: 'create',
      pod,
      work: async () => {
        await this.#createClaims(set, { pod, ordinal, client });
        return client.create(podResource, pod);
      },
    });
    await this.#updateClaimRetention(set, { pod: created, ordinal, client });
    this.#recordEvent(set, 'create', pod);
    return created;
  }

  /** Creates the missing PersistentVolumeClaims of a pod and sets the owners of its claims. */
  async createMissingClaims(set: StatefulSet, request: StatefulPodRequest): Promise<void> {
    await this.#createClaims(set, request);
    await this.#updateClaimRetention(set, request);
  }

  /**
   * Gives a pod the labels and volumes of its ordinal, and its PersistentVolumeClaims their owners. Does nothing if the pod and the claims have
   * these already.
   */
  async update(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<void> {
    const repaired = withIdentity(set, pod, ordinal);
    const claimsChanged = await this.#updateClaimRetention(set, { pod, ordinal, client });
    if (repaired === pod && !claimsChanged) return;
    await this.#withEvent(set, {
      verb: 'update',
      pod,
      work: async () => {
        if (repaired !== pod) await this.#createClaims(set, { pod, ordinal, client });
        await client.update(podResource, withTypeMeta(podResource, repaired));
        this.#recordEvent(set, 'update', pod);
      },
    });
  }

  async delete(set: StatefulSet, pod: Pod, client: Client): Promise<void> {
    try {
      await client.delete(podResource, objectName(pod), { preconditions: { uid: pod.metadata?.uid ?? '' } });
    } catch (error) {
      // deleted already or replaced by a newer pod of the same name: the cache will show it
      if (isStatus(error, 'NotFound', 'Conflict')) return;
      this.#recordFailure(set, { verb: 'delete', pod, error });
      throw error;
    }
    this.#recordEvent(set, 'delete', pod);
  }

  /** Creates the missing PersistentVolumeClaims of an ordinal. A failure does not prevent the creation of the others. */
  async #createClaims(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<void> {
    const errors: Error[] = [];
    for (const wanted of claimsOf(set, ordinal)) {
      const present = this.#claims.get(`${wanted.metadata?.namespace}/${wanted.metadata?.name}`);
      if (present?.metadata?.deletionTimestamp !== undefined) errors.push(new Error(`pvc ${present.metadata.name} is being deleted`));
      if (present !== undefined) continue;
      const claim = wanted.metadata?.name;
      const podOfSet = `Pod ${pod.metadata?.name} in StatefulSet ${set.metadata?.name}`;
      try {
        await client.create(persistentVolumeClaims, wanted);
        this.#recorder.event(set, 'Normal', 'SuccessfulCreate', `create Claim ${claim} ${podOfSet} success`);
      } catch (error) {
        if (isStatus(error, 'AlreadyExists')) continue;
        const { message } = error as Error;
        this.#recorder.event(set, 'Warning', 'FailedCreate', `create Claim ${claim} for ${podOfSet} failed error: ${message}`);
        if (isNamespaceTerminating(error)) throw error;
        errors.push(new Error(`failed to create PVC ${claim}: ${message}`, { cause: error }));
      }
    }
    if (errors.length > 0) throw aggregate(errors);
  }

  /** Returns true if a former pod still owns a PersistentVolumeClaim of this ordinal, which `whenScaled: Delete` deletes with the former pod. */
  hasStaleClaim(set: StatefulSet, pod: Pod, ordinal: number): boolean {
    if ((set.spec?.persistentVolumeClaimRetentionPolicy?.whenScaled ?? 'Retain') === 'Retain') return false;
    return this.#presentClaims(set, ordinal).some((claim) => isClaimStale(claim, pod));
  }

  /** Sets the owner references of the PersistentVolumeClaims of a pod that a scale-down will delete. */
  async updateCondemnedClaims(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<void> {
    await this.#writeClaimOwners(set, { pod, ordinal, client, condemned: true });
  }

  async #updateClaimRetention(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<boolean> {
    return this.#withEvent(set, {
      verb: 'update',
      pod,
      work: () => this.#writeClaimOwners(set, { pod, ordinal, client, condemned: false }),
    });
  }

  /** Sets the owner references by `persistentVolumeClaimRetentionPolicy`. Returns true if a claim changed. */
  async #writeClaimOwners(
    set: StatefulSet,
    { pod, ordinal, client, condemned }: StatefulPodRequest & { readonly condemned: boolean },
  ): Promise<boolean> {
    let changed = false;
    for (const claim of this.#presentClaims(set, ordinal)) {
      const ownerReferences = claimOwnerReferences(set, { pod, claim, condemned });
      if (ownerReferences === undefined) continue;
      const { metadata } = claim;
      try {
        await client.update(persistentVolumeClaims, {
          ...withTypeMeta(persistentVolumeClaims, claim),
          metadata: { ...metadata, ownerReferences },
        });
      } catch (error) {
        if (isStatus(error, 'NotFound')) continue;
        throw new Error(`Could not update claim ${metadata?.name} for delete policy ownerRefs: ${(error as Error).message}`, {
          cause: error,
        });
      }
      changed = true;
    }
    return changed;
  }

  #presentClaims(set: StatefulSet, ordinal: number): readonly PersistentVolumeClaim[] {
    return claimsOf(set, ordinal).flatMap(({ metadata }) => this.#claims.get(`${metadata?.namespace}/${metadata?.name}`) ?? []);
  }

  async #withEvent<R>(
    set: StatefulSet,
    { verb, pod, work }: { readonly verb: 'create' | 'update'; readonly pod: Pod; readonly work: () => Promise<R> },
  ): Promise<R> {
    try {
      return await work();
    } catch (error) {
      this.#recordFailure(set, { verb, pod, error });
      throw error;
    }
  }

  #recordEvent(set: StatefulSet, verb: 'create' | 'update' | 'delete', pod: Pod): void {
    const reason = { create: 'SuccessfulCreate', update: 'SuccessfulUpdate', delete: 'SuccessfulDelete' }[verb];
    this.#recorder.event(set, 'Normal', reason, `${verb} Pod ${pod.metadata?.name} in StatefulSet ${set.metadata?.name} successful`);
  }
  #recordFailure(
    set: StatefulSet,
    { verb, pod, error }: { readonly verb: 'create' | 'update' | 'delete'; readonly pod: Pod; readonly error: unknown },
  ): void {
    // a conflict records no event: it is retried at once
    if (isStatus(error, 'Conflict', 'AlreadyExists')) return;
    const reason = { create: 'FailedCreate', update: 'FailedUpdate', delete: 'FailedDelete' }[verb];
    this.#recorder.event(
      set,
      'Warning',
      reason,
      `${verb} Pod ${pod.metadata?.name} in StatefulSet ${set.metadata?.name} failed error: ${(error as Error).message}`,
    );
  }
}
