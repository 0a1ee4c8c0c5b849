import { objectKey, type KubeObject } from '@oarlock/api/object';
import { controllerRevisions, persistentVolumeClaims, pods as podResource, statefulSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ControllerRevision, StatefulSet, StatefulSetStatus } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { slowStart } from '../expectations.ts';
import { ownerKeys } from '../owner-keys.ts';
import { claim, indexByOwner } from '../ownership.ts';
import { isTerminal, isTerminating } from '../pod-state.ts';
import { isNamespaceTerminating, nameOf, typed } from '../pod-template.ts';
import { settleRevisions, templateOf, truncateHistory } from '../revision-history.ts';
import { selectorOf, SelectorOwners } from '../selector-owners.ts';
import { StatefulPods } from './stateful-pods.ts';
import { isWanted, makePod, ordinalOf, replicasOf, revisionOf, startOf, withIdentity } from './identity.ts';
import { availability, countStatus, isAvailable, isBurst, isOfOldRevision, isRolling, toUpdate } from './replicas.ts';

interface Parts {
  readonly sets: Informer<StatefulSet>;
  readonly pods: Informer<Pod>;
  readonly revisions: Informer<ControllerRevision>;
  readonly claims: Informer;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** One set at work. `replicas` are its places from the first ordinal on; a place without a pod is undefined. */
interface Place {
  readonly ordinal: number;
  readonly pod: Pod | undefined;
}

/** Pods with names, claims and an order of their own. */
export class StatefulSetController implements Controller {
  readonly name = 'statefulset';
  readonly watches;
  readonly #sets: Informer<StatefulSet>;
  readonly #pods: Informer<Pod>;
  readonly #revisions: Informer<ControllerRevision>;
  readonly #control: StatefulPods;
  readonly #clock: Clock;

  constructor({ sets, pods, revisions, claims, recorder, clock }: Parts) {
    this.#sets = sets;
    this.#pods = indexByOwner(pods);
    this.#revisions = indexByOwner(revisions);
    this.#control = new StatefulPods(claims, recorder);
    this.#clock = clock;
    const candidates = new SelectorOwners(sets);
    this.watches = [
      watch(sets, (set) => [objectKey(set)]),
      watch(pods, (pod, old) => ownerKeys('StatefulSet', candidates, pod, old)),
      watch(revisions, (revision, old) => ownerKeys('StatefulSet', candidates, revision, old)),
      // a place waits for the claim of its former pod to go
      watch(claims, (claimed) => claimOwners(claimed)),
    ];
  }

  async reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void> {
    const set = this.#sets.get(key);
    if (set === undefined) return undefined;
    const { client } = context;
    const name = set.metadata?.name ?? '';
    const shared = { client, owner: typed(statefulSets, set), selector: selectorOf(set), confirm: () => this.#stillThere(set, client) };
    const found = await claim({ ...shared, informer: this.#revisions, resource: controllerRevisions });
    const pods = await claim({
      ...shared,
      informer: this.#pods,
      resource: podResource,
      accepts: (pod) => ordinalOf(pod, name) !== undefined,
    });
    const leaving = set.metadata?.deletionTimestamp !== undefined;
    if (leaving && found.length === 0) return undefined;
    const { all, update, collisionCount } = await settleRevisions({
      client,
      resource: statefulSets,
      owner: set,
      found,
      collisionCount: set.status?.collisionCount,
    });
    const current = all.find(({ metadata }) => metadata?.name === set.status?.currentRevision) ?? update;
    // pods that were made or deleted below are counted when the cache shows them: each wakes this set
    const live = new Map(pods.map((pod) => [ordinalOf(pod, name) ?? -1, pod]));
    try {
      if (!leaving) await this.#bring(set, live, current, update, client);
    } finally {
      const now = this.#clock.now();
      const status = countStatus(set, [...live.values()], current, update, collisionCount, now);
      if (!sameStatus(set.status, status)) await this.#writeStatus(set, status, client);
    }
    const used = new Set(pods.map(revisionOf));
    const isLive = ({ metadata }: ControllerRevision) =>
      metadata?.name === current.metadata?.name || metadata?.name === update.metadata?.name || used.has(metadata?.name);
    if (!leaving) await truncateHistory(client, all, isLive, set.spec?.revisionHistoryLimit ?? 10);
    const waits = [...live.values()].map((pod) => availability(set, pod, this.#clock.now()) ?? 0).filter((ms) => ms > 0);
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  async #stillThere(set: StatefulSet, client: Client): Promise<boolean> {
    const fresh = await client.get(statefulSets, nameOf(set));
    return fresh.metadata?.uid === set.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /** The next step, or for a parallel set all steps that can be made now. */
  async #bring(set: StatefulSet, live: Map<number, Pod>, current: ControllerRevision, update: ControllerRevision, client: Client) {
    const start = startOf(set);
    // a set may ask for more places than a list can hold
    const count = replicasOf(set);
    const placeAt = (index: number): Place => ({ ordinal: start + index, pod: live.get(start + index) });
    const condemned = [...live.keys()].filter((ordinal) => !isWanted(set, ordinal)).sort((a, b) => b - a);
    const burst = isBurst(set);
    const now = this.#clock.now();
    const isUnhealthy = (ordinal: number) => {
      const pod = live.get(ordinal);
      return pod === undefined || !isAvailable(set, pod, now) || isTerminating(pod);
    };
    let first = start;
    while (first < start + count && !isUnhealthy(first)) first += 1;
    const firstUnhealthy = first < start + count ? first : condemned.toReversed().find(isUnhealthy);
    const settle = (place: Place) => this.#settlePlace(set, place, live, current, update, client);
    if (burst) {
      let waits = false;
      const { error } = await slowStart(count, async (index) => {
        if ((await settle(placeAt(index))) === 'wait') waits = true;
      });
      if (error !== undefined) throw error;
      if (waits) return;
    } else for (let index = 0; index < count; index++) if ((await settle(placeAt(index))) !== 'go') return;
    for (const ordinal of condemned) {
      const pod = live.get(ordinal);
      if (pod !== undefined) await this.#control.retain(set, pod, ordinal, true, client);
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
    const outdated = toUpdate(
      set,
      Array.from({ length: count }, (_, index) => live.get(start + index)),
      update.metadata?.name ?? '',
      now,
    );
    for (const pod of outdated) await this.#control.delete(set, pod, client);
  }

  /**
   * One place. `go`: the next may be looked at; `stop`: an ordered set goes no further now; `wait`: nothing goes on until this one is
   * settled, not even of a parallel set.
   */
  async #settlePlace(
    set: StatefulSet,
    { ordinal, pod }: Place,
    live: Map<number, Pod>,
    current: ControllerRevision,
    update: ControllerRevision,
    client: Client,
  ): Promise<'go' | 'stop' | 'wait'> {
    const burst = isBurst(set);
    if (pod === undefined) {
      const of = isOfOldRevision(set, ordinal) ? current : update;
      const fresh = makePod(set, templateOf(of), of.metadata?.name ?? '', ordinal);
      if (this.#control.hasStaleClaim(set, fresh, ordinal)) return 'wait';
      try {
        live.set(ordinal, await this.#control.create(set, fresh, ordinal, client));
      } catch (error) {
        if (isNamespaceTerminating(error)) return 'wait';
        throw error;
      }
      return burst ? 'go' : 'stop';
    }
    if (isTerminal(pod)) {
      if (!isTerminating(pod)) await this.#control.replace(set, pod, client);
      return 'wait';
    }
    if (pod.status?.phase === 'Pending') await this.#control.createClaims(set, pod, ordinal, client);
    if (!burst && (isTerminating(pod) || !isAvailable(set, pod, this.#clock.now()))) return 'stop';
    if (!isTerminating(pod)) {
      await this.#control.retain(set, pod, ordinal, false, client);
      const right = withIdentity(set, pod, ordinal);
      if (right !== pod) await this.#control.update(set, right, ordinal, client);
    }
    return 'go';
  }

  async #writeStatus(set: StatefulSet, status: StatefulSetStatus, client: Client): Promise<void> {
    try {
      await client.update(statefulSets, { ...typed(statefulSets, set), status }, { subresource: 'status' });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
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
      sets: informers.of(statefulSets),
      pods: informers.of(podResource),
      revisions: informers.of(controllerRevisions),
      claims: informers.of(persistentVolumeClaims),
      recorder: events.recorder('statefulset-controller'),
      clock,
    }),
});
