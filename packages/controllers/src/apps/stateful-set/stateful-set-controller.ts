import { objectKey, type KubeObject } from '@oarlock/api/object';
import { controllerRevisions, persistentVolumeClaims, pods as podResource, statefulSets } from '@oarlock/api/resources';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import type { ControllerRevision, StatefulSet, StatefulSetStatus } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { slowStartBatch } from '../../expectations/controller-expectations.ts';
import { ownerKeys } from '../../ownership/owner-keys.ts';
import { claimObjects, addOwnerIndexes } from '../../ownership/controller-ref-manager.ts';
import { isTerminal, isTerminating } from '../../pods/pod-state.ts';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { historyHashLabel, revisionTemplate, syncRevisions, truncateHistory } from '../history/controller-history.ts';
import { selectorOf, SelectorOwnerIndex } from '../../ownership/selector-owners.ts';
import { StatefulPodControl } from './stateful-pod-control.ts';
import { isInOrdinalRange, newStatefulPod, ordinalOf, replicasOf, revisionOf, startOrdinal } from './pod-identity.ts';
import { availabilityOf, countStatus, isAvailable, allowsBurst, isOfOldRevision, isRolling, podToUpdate } from './replica-status.ts';

interface StatefulSetControllerOptions {
  readonly sets: Informer<StatefulSet>;
  readonly pods: Informer<Pod>;
  readonly revisions: Informer<ControllerRevision>;
  readonly claims: Informer;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** One replica of a StatefulSet. `pod` is undefined if the pod does not exist. */
interface Replica {
  readonly ordinal: number;
  readonly pod: Pod | undefined;
}

/** Manages the pods of StatefulSets, which have stable names, PersistentVolumeClaims and an order. */
export class StatefulSetController implements Controller {
  readonly name = 'statefulset';
  readonly watches;
  readonly #sets: Informer<StatefulSet>;
  readonly #pods: Informer<Pod>;
  readonly #revisions: Informer<ControllerRevision>;
  readonly #control: StatefulPodControl;
  readonly #clock: Clock;

  constructor({ sets, pods, revisions, claims, recorder, clock }: StatefulSetControllerOptions) {
    this.#sets = sets;
    this.#pods = addOwnerIndexes(pods);
    this.#revisions = addOwnerIndexes(revisions);
    this.#control = new StatefulPodControl(claims, recorder);
    this.#clock = clock;
    const candidates = new SelectorOwnerIndex(sets);
    this.watches = [
      watch(sets, (set) => [objectKey(set)]),
      watch(pods, (pod, old) => ownerKeys('StatefulSet', { candidates, object: pod, old })),
      watch(revisions, (revision, old) => ownerKeys('StatefulSet', { candidates, object: revision, old })),
      // a replica waits for the deletion of the claim of its former pod
      watch(claims, (claimed) => claimOwners(claimed)),
    ];
  }

  async reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void> {
    const set = this.#sets.get(key);
    if (set === undefined) return undefined;
    const { client } = context;
    const name = set.metadata?.name ?? '';
    const claimOptions = {
      client,
      owner: withTypeMeta(statefulSets, set),
      selector: selectorOf(set),
      canAdopt: () => this.#canAdopt(set, client),
    };
    const revisions = await claimObjects({ ...claimOptions, informer: this.#revisions, resource: controllerRevisions });
    const pods = await claimObjects({
      ...claimOptions,
      informer: this.#pods,
      resource: podResource,
      accepts: (pod) => ordinalOf(pod, name) !== undefined,
    });
    const isDeleting = set.metadata?.deletionTimestamp !== undefined;
    if (isDeleting && revisions.length === 0) return undefined;
    const {
      all,
      updateRevision: update,
      collisionCount,
    } = await syncRevisions({
      client,
      resource: statefulSets,
      owner: set,
      revisions,
      collisionCount: set.status?.collisionCount,
      hashLabel: historyHashLabel,
    });
    const current = all.find(({ metadata }) => metadata?.name === set.status?.currentRevision) ?? update;
    // pods created or deleted below are counted when the cache shows them: their events trigger a reconcile
    const live = new Map(pods.map((pod) => [ordinalOf(pod, name) ?? -1, pod]));
    try {
      if (!isDeleting) await this.#updateStatefulSet(set, live, { current, update, client });
    } finally {
      const now = this.#clock.now();
      const status = countStatus(set, [...live.values()], { current, update, collisionCount, nowMs: now });
      if (!sameStatus(set.status, status)) await this.#writeStatus(set, status, client);
    }
    const used = new Set(pods.map(revisionOf));
    const isLive = ({ metadata }: ControllerRevision) =>
      metadata?.name === current.metadata?.name || metadata?.name === update.metadata?.name || used.has(metadata?.name);
    if (!isDeleting) await truncateHistory(client, { all, isLive, limit: set.spec?.revisionHistoryLimit ?? 10 });
    const waits = [...live.values()].map((pod) => availabilityOf(set, pod, this.#clock.now()) ?? 0).filter((ms) => ms > 0);
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  async #canAdopt(set: StatefulSet, client: Client): Promise<boolean> {
    const fresh = await client.get(statefulSets, objectName(set));
    return fresh.metadata?.uid === set.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /** Makes the next step of a StatefulSet, or with podManagementPolicy Parallel all steps that are possible now. */
  async #updateStatefulSet(
    set: StatefulSet,
    live: Map<number, Pod>,
    { current, update, client }: { readonly current: ControllerRevision; readonly update: ControllerRevision; readonly client: Client },
  ) {
    const start = startOrdinal(set);
    // `spec.replicas` may exceed the maximum length of an array
    const count = replicasOf(set);
    const replicaAt = (index: number): Replica => ({ ordinal: start + index, pod: live.get(start + index) });
    const condemned = [...live.keys()].filter((ordinal) => !isInOrdinalRange(set, ordinal)).sort((a, b) => b - a);
    const burst = allowsBurst(set);
    const now = this.#clock.now();
    const isUnhealthy = (ordinal: number) => {
      const pod = live.get(ordinal);
      return pod === undefined || !isAvailable(set, pod, now) || isTerminating(pod);
    };
    let first = start;
    while (first < start + count && !isUnhealthy(first)) first += 1;
    const firstUnhealthy = first < start + count ? first : condemned.toReversed().find(isUnhealthy);
    const processReplica = (replica: Replica) => this.#processReplica(set, { replica, live, current, update, client });
    if (burst) {
      // a replica that must wait does not delay the others
      const { error } = await slowStartBatch(count, async (index) => {
        await processReplica(replicaAt(index));
      });
      if (error !== undefined) throw error;
    } else for (let index = 0; index < count; index++) if ((await processReplica(replicaAt(index))) !== 'go') return;
    for (const ordinal of condemned) {
      const pod = live.get(ordinal);
      if (pod !== undefined) await this.#control.updateCondemnedClaims(set, { pod, ordinal, client });
    }
    for (const ordinal of condemned) {
      const pod = live.get(ordinal);
      if (pod === undefined) continue;
      if (isTerminating(pod)) {
        if (burst) continue;
        return;
      }
      if (!burst && !isAvailable(set, pod, now) && ordinal !== firstUnhealthy) return;
      await this.#control.delete(set, pod, client);
      if (!burst) return;
    }
    if (!isRolling(set)) return;
    const outdated = podToUpdate(set, {
      replicas: Array.from({ length: count }, (_, index) => live.get(start + index)),
      update: update.metadata?.name ?? '',
      nowMs: now,
    });
    if (outdated !== undefined) await this.#control.delete(set, outdated, client);
  }

  /** Processes one replica. Returns `go` if an OrderedReady StatefulSet may process the next replica, or `wait` if it must wait for this one. */
  async #processReplica(
    set: StatefulSet,
    {
      replica: { ordinal, pod },
      live,
      current,
      update,
      client,
    }: {
      readonly replica: Replica;
      readonly live: Map<number, Pod>;
      readonly current: ControllerRevision;
      readonly update: ControllerRevision;
      readonly client: Client;
    },
  ): Promise<'go' | 'wait'> {
    const burst = allowsBurst(set);
    if (pod === undefined) {
      const revision = isOfOldRevision(set, ordinal) ? current : update;
      const fresh = newStatefulPod(set, { template: revisionTemplate(revision), revision: revision.metadata?.name ?? '', ordinal });
      if (this.#control.hasStaleClaim(set, fresh, ordinal)) return 'wait';
      try {
        live.set(ordinal, await this.#control.create(set, { pod: fresh, ordinal, client }));
      } catch (error) {
        if (isNamespaceTerminating(error)) return 'wait';
        throw error;
      }
      return burst ? 'go' : 'wait';
    }
    if (isTerminal(pod)) {
      if (!isTerminating(pod)) await this.#control.delete(set, pod, client);
      return 'wait';
    }
    if (pod.status?.phase === 'Pending') await this.#control.createMissingClaims(set, { pod, ordinal, client });
    if (!burst && (isTerminating(pod) || !isAvailable(set, pod, this.#clock.now()))) return 'wait';
    if (!isTerminating(pod)) await this.#control.update(set, { pod, ordinal, client });
    return 'go';
  }

  async #writeStatus(set: StatefulSet, status: StatefulSetStatus, client: Client): Promise<void> {
    await ignoreNotFound(() => client.update(statefulSets, { ...withTypeMeta(statefulSets, set), status }, { subresource: 'status' }));
  }
}

function* claimOwners({ metadata }: KubeObject): Iterable<string> {
  for (const { kind, name } of metadata?.ownerReferences ?? []) {
    if (kind === 'StatefulSet') yield `${metadata?.namespace}/${name}`;
    else if (kind === 'Pod') yield `${metadata?.namespace}/${name.replace(/-[0-9]+$/, '')}`;
  }
}

function sameStatus(old: StatefulSetStatus | undefined, now: StatefulSetStatus): boolean {
  const counts = [
    'observedGeneration',
    'replicas',
    'readyReplicas',
    'availableReplicas',
    'currentReplicas',
    'updatedReplicas',
    'collisionCount',
  ] as const;
  return (
    old !== undefined &&
    counts.every((count) => (old[count] ?? 0) === (now[count] ?? 0)) &&
    old.currentRevision === now.currentRevision &&
    old.updateRevision === now.updateRevision
  );
}

export default Controllers.plugin({
  id: 'controller-stateful-set',
  declares: { loop: 'statefulset' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new StatefulSetController({
      sets: informers.forResource(statefulSets),
      pods: informers.forResource(podResource),
      revisions: informers.forResource(controllerRevisions),
      claims: informers.forResource(persistentVolumeClaims),
      recorder: events.recorder('statefulset-controller'),
      clock,
    }),
});
