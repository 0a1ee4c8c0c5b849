import type { KubeObject } from '@oarlock/api/object';
import { persistentVolumeClaims, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { Client, EventRecorder, Informer } from '@oarlock/spi/client';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { isClaimStale, claimOwnerReferences } from './claim-retention.ts';
import { claimsOf } from './pod-identity.ts';

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

  /** Creates the PersistentVolumeClaims of an ordinal, then the pod. */
  async create(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<Pod> {
    await this.#withEvent(set, { verb: 'create', pod, work: () => this.createClaims(set, { pod, ordinal, client }) });
    return this.#withEvent(set, {
      verb: 'create',
      pod,
      work: async () => {
        const created = await client.create(podResource, pod);
        this.#recordEvent(set, 'create', pod);
        return created;
      },
    });
  }

  async update(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<void> {
    await this.#withEvent(set, {
      verb: 'update',
      pod,
      work: async () => {
        await this.createClaims(set, { pod, ordinal, client });
        await client.update(podResource, withTypeMeta(podResource, pod));
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

  /** Deletes a terminal pod, so that a new pod with the same name can be created. */
  async replace(set: StatefulSet, pod: Pod, client: Client): Promise<void> {
    await this.delete(set, pod, client);
  }

  async createClaims(set: StatefulSet, { pod, ordinal, client }: StatefulPodRequest): Promise<void> {
    for (const wanted of claimsOf(set, ordinal)) {
      const present = this.#claims.get(`${wanted.metadata?.namespace}/${wanted.metadata?.name}`);
      if (present?.metadata?.deletionTimestamp !== undefined) throw new Error(`pvc ${present.metadata.name} is being deleted`);
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
        throw isNamespaceTerminating(error) ? error : new Error(`failed to create PVC ${claim}: ${message}`, { cause: error });
      }
    }
  }

  /** Returns true if a former pod still owns a PersistentVolumeClaim of this ordinal. */
  hasStaleClaim(set: StatefulSet, pod: Pod, ordinal: number): boolean {
    return claimsOf(set, ordinal).some(({ metadata }) => {
      const present = this.#claims.get(`${metadata?.namespace}/${metadata?.name}`);
      return present !== undefined && isClaimStale(present, pod);
    });
  }

  /** Sets the owner references of the pod's PersistentVolumeClaims by `persistentVolumeClaimRetentionPolicy`. */
  async updateClaimRetention(
    set: StatefulSet,
    pod: Pod,
    { ordinal, condemned, client }: { readonly ordinal: number; readonly condemned: boolean; readonly client: Client },
  ): Promise<void> {
    for (const { metadata } of claimsOf(set, ordinal)) {
      const present = this.#claims.get(`${metadata?.namespace}/${metadata?.name}`);
      const ownerReferences = present && claimOwnerReferences(set, { pod, claim: present, condemned });
      if (present === undefined || ownerReferences === undefined) continue;
      try {
        await client.update(persistentVolumeClaims, {
          ...withTypeMeta(persistentVolumeClaims, present),
          metadata: { ...present.metadata, ownerReferences },
        });
      } catch (error) {
        if (isStatus(error, 'NotFound')) continue;
        const subject = `Claim ${present.metadata?.name} Pod ${pod.metadata?.name} in StatefulSet ${set.metadata?.name}`;
        this.#recorder.event(set, 'Warning', 'FailedUpdate', `update ${subject} failed error: ${(error as Error).message}`);
        throw error;
      }
    }
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
