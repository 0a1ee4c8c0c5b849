import type { KubeObject } from '@oarlock/api/object';
import { persistentVolumeClaims, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { Client, EventRecorder, Informer } from '@oarlock/spi/client';
import { nameOf, typed } from '../pod-template.ts';
import { isStale, ownersFor } from './claim-retention.ts';
import { claimsOf } from './identity.ts';

/** The writes of the StatefulSet loop, each with the event that tells of it. */
export class StatefulPods {
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #recorder: EventRecorder;

  constructor(claims: Informer<KubeObject>, recorder: EventRecorder) {
    this.#claims = claims as Informer<PersistentVolumeClaim>;
    this.#recorder = recorder;
  }

  /** The claims first, then the pod. */
  async create(set: StatefulSet, pod: Pod, ordinal: number, client: Client): Promise<Pod> {
    await this.#told(set, 'create', pod, () => this.createClaims(set, pod, ordinal, client));
    return this.#told(set, 'create', pod, async () => {
      const made = await client.create(podResource, pod);
      this.#say(set, 'create', pod);
      return made;
    });
  }

  async update(set: StatefulSet, pod: Pod, ordinal: number, client: Client): Promise<void> {
    await this.#told(set, 'update', pod, async () => {
      await this.createClaims(set, pod, ordinal, client);
      await client.update(podResource, typed(podResource, pod));
      this.#say(set, 'update', pod);
    });
  }

  async delete(set: StatefulSet, pod: Pod, client: Client): Promise<void> {
    try {
      await client.delete(podResource, nameOf(pod), { preconditions: { uid: pod.metadata?.uid ?? '' } });
    } catch (error) {
      // gone, or a newer one of the name: the cache will show it
      if (isStatus(error, 'NotFound', 'Conflict')) return;
      this.#failed(set, 'delete', pod, error);
      throw error;
    }
    this.#say(set, 'delete', pod);
  }

  /** A pod that has ended makes room for a new one of its name. */
  async replace(set: StatefulSet, pod: Pod, client: Client): Promise<void> {
    const failed = pod.status?.phase === 'Failed';
    this.#recorder.event(
      set,
      failed ? 'Warning' : 'Normal',
      failed ? 'RecreatingFailedPod' : 'RecreatingTerminatedPod',
      `StatefulSet ${set.metadata?.namespace}/${set.metadata?.name} is recreating ${failed ? 'failed' : 'terminated'} Pod ${pod.metadata?.name}`,
    );
    await this.delete(set, pod, client);
  }

  async createClaims(set: StatefulSet, pod: Pod, ordinal: number, client: Client): Promise<void> {
    for (const wanted of claimsOf(set, ordinal)) {
      const present = this.#claims.get(`${wanted.metadata?.namespace}/${wanted.metadata?.name}`);
      if (present?.metadata?.deletionTimestamp !== undefined)
        throw new Error(`pvc ${present.metadata.name} is being deleted; a new one is made when it is gone`);
      if (present !== undefined) continue;
      const what = `Claim ${wanted.metadata?.name} Pod ${pod.metadata?.name} in StatefulSet ${set.metadata?.name}`;
      try {
        await client.create(persistentVolumeClaims, wanted);
        this.#recorder.event(set, 'Normal', 'SuccessfulCreate', `create ${what} success`);
      } catch (error) {
        if (isStatus(error, 'AlreadyExists')) continue;
        this.#recorder.event(set, 'Warning', 'FailedCreate', `create ${what} failed error: ${(error as Error).message}`);
        throw error;
      }
    }
  }

  /** A claim of this place goes with a pod that is gone. */
  hasStaleClaim(set: StatefulSet, pod: Pod, ordinal: number): boolean {
    return claimsOf(set, ordinal).some(({ metadata }) => {
      const present = this.#claims.get(`${metadata?.namespace}/${metadata?.name}`);
      return present !== undefined && isStale(present, pod);
    });
  }

  /** Gives the claims of a pod the owners that the retention policy asks for. */
  async retain(set: StatefulSet, pod: Pod, ordinal: number, condemned: boolean, client: Client): Promise<void> {
    for (const { metadata } of claimsOf(set, ordinal)) {
      const present = this.#claims.get(`${metadata?.namespace}/${metadata?.name}`);
      const ownerReferences = present && ownersFor(set, pod, present, condemned);
      if (present === undefined || ownerReferences === undefined) continue;
      try {
        await client.update(persistentVolumeClaims, {
          ...typed(persistentVolumeClaims, present),
          metadata: { ...present.metadata, ownerReferences },
        });
      } catch (error) {
        if (isStatus(error, 'NotFound')) continue;
        const what = `Claim ${present.metadata?.name} Pod ${pod.metadata?.name} in StatefulSet ${set.metadata?.name}`;
        this.#recorder.event(set, 'Warning', 'FailedUpdate', `update ${what} failed error: ${(error as Error).message}`);
        throw error;
      }
    }
  }

  async #told<R>(set: StatefulSet, verb: 'create' | 'update', pod: Pod, work: () => Promise<R>): Promise<R> {
    try {
      return await work();
    } catch (error) {
      this.#failed(set, verb, pod, error);
      throw error;
    }
  }

  #say(set: StatefulSet, verb: 'create' | 'update' | 'delete', pod: Pod): void {
    const reason = { create: 'SuccessfulCreate', update: 'SuccessfulUpdate', delete: 'SuccessfulDelete' }[verb];
    this.#recorder.event(set, 'Normal', reason, `${verb} Pod ${pod.metadata?.name} in StatefulSet ${set.metadata?.name} successful`);
  }
  #failed(set: StatefulSet, verb: 'create' | 'update' | 'delete', pod: Pod, error: unknown): void {
    // a race that is lost is no event: it is tried again at once
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
