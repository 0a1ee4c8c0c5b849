import { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import type { Selector } from '@oarlock/api/selectors/label-selector';
import { controllerOf, objectKey, type KubeObject } from '@oarlock/api/object';
import { pods as podResource, replicaSets } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { ReplicaSetCondition, ReplicaSetStatus } from '@oarlock/api/types/apps-v1';
import type { Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { optional } from '@oarlock/kernel/slot';
import { Cluster } from '@oarlock/spi/cluster';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { observePods, ControllerExpectations } from '../../expectations/controller-expectations.ts';
import { ownerKeys } from '../../ownership/owner-keys.ts';
import { claimObjects, addOwnerIndexes, orphansIn, controlledBy } from '../../ownership/controller-ref-manager.ts';
import { PodControl } from '../../pods/pod-control.ts';
import { availableIn, isActive, isPodTerminating } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { podFromTemplate } from '../../pods/pod-template.ts';
import { selectorOf, SelectorOwnerIndex } from '../../ownership/selector-owners.ts';
import { deletionOrder } from './deletion-order.ts';
import { podCountsOf, type PodCounts } from './pod-counts.ts';

const burstReplicas = 500; // pods created or deleted in one reconcile, as upstream
const statusRetries = 1;

/** The fields that ReplicaSet and ReplicationController share. */
export interface ReplicaSetLike extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly minReadySeconds?: number;
    readonly template?: PodTemplateSpec;
    readonly selector?: LabelSelector | Readonly<Record<string, string>>;
  };
  readonly status?: ReplicaSetStatus;
}

/** The differences between ReplicaSet and ReplicationController. */
export interface ReplicaKind<T extends ReplicaSetLike> {
  readonly name: string;
  readonly resource: Resource<T>;
  selectorOf(set: T): Selector;
  /** Returns the ReplicaSets or ReplicationControllers of a namespace whose selectors match these labels. */
  candidates(namespace: string, labels: Readonly<Record<string, string>> | undefined): readonly T[];
  /** True if the status has `terminatingReplicas`. */
  readonly countsTerminating: boolean;
  /** Whether the deletion cost of pods counts in a scale-down. */
  readonly hasDeletionCosts: boolean;
}

interface ReplicaControllerOptions<T extends ReplicaSetLike> {
  readonly kind: ReplicaKind<T>;
  readonly sets: Informer<T>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Pod counts of one set, as its status reports them. */
interface Counts {
  readonly active: number;
  readonly ready: number;
  readonly available: number;
  readonly labeled: number;
  readonly terminating: number;
  /** Milliseconds until the next pod becomes available; infinite if no pod is about to become available. */
  readonly nextAvailableMs: number;
}

/** Reconciles ReplicaSets and ReplicationControllers: keeps the number of active pods equal to `spec.replicas`. */
export class ReplicaController<T extends ReplicaSetLike> implements Controller {
  readonly name: string;
  readonly watches;
  readonly #kind: ReplicaKind<T>;
  readonly #sets: Informer<T>;
  readonly #pods: Informer<Pod>;
  readonly #clock: Clock;
  readonly #expectations: ControllerExpectations;
  readonly #control: PodControl;
  readonly #podCounts: PodCounts;

  constructor({ kind, sets, pods, recorder, clock }: ReplicaControllerOptions<T>) {
    this.name = kind.name;
    this.#kind = kind;
    this.#sets = sets;
    this.#pods = addOwnerIndexes(pods);
    this.#podCounts = podCountsOf(pods);
    this.#clock = clock;
    this.#expectations = new ControllerExpectations(clock);
    this.#control = new PodControl(recorder, this.#expectations, pods);
    const candidates = { of: kind.candidates };
    this.watches = [
      watch(sets, (set) => [objectKey(set)]),
      watch(pods, (pod, old) => ownerKeys(kind.resource.kind, { candidates, object: pod, old })),
    ];
    observePods(pods, kind.resource.kind, this.#expectations);
  }

  async reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void> {
    const set = this.#sets.get(key);
    if (set === undefined) {
      this.#expectations.deleteExpectations(key);
      return undefined;
    }
    const selector = this.#kind.selectorOf(set);
    await this.#control.resolveOutcome({ key, owner: set, client: context.client }, selector);
    const expectationsSatisfied = this.#expectations.satisfied(key);
    const minReady = set.spec?.minReadySeconds ?? 0;
    const counts = this.#countsFromIndex(set, selector, minReady);
    const all = counts === undefined ? await this.#claim(set, selector, context) : undefined;
    const currentCounts = counts ?? this.#countPods(set, all ?? [], minReady);
    const failure =
      expectationsSatisfied && set.metadata?.deletionTimestamp === undefined
        ? await this.#manageReplicas(key, { set, active: currentCounts.active, all, context })
        : undefined;
    await this.#writeStatus(set, { counts: currentCounts, failure, context });
    if (failure !== undefined) throw failure;
    return Number.isFinite(currentCounts.nextAvailableMs) ? { requeueAfterMs: currentCounts.nextAvailableMs } : undefined;
  }

  #claim(set: T, selector: Selector, context: ReconcileContext): Promise<readonly Pod[]> {
    return claimObjects({
      client: context.client,
      informer: this.#pods,
      resource: podResource,
      owner: withTypeMeta(this.#kind.resource, set),
      selector,
      canAdopt: () => this.#canAdopt(set, context),
    });
  }

  /**
   * Returns the counts from the pod index. Returns undefined if the reconcile must visit the pods, to adopt or release pods or to check
   * `minReadySeconds`.
   */
  #countsFromIndex(set: T, selector: Selector, minReady: number): Counts | undefined {
    if (minReady > 0) return undefined;
    const { uid = '', namespace = '', deletionTimestamp } = set.metadata ?? {};
    const groups = this.#podCounts.of(uid);
    if (deletionTimestamp === undefined) {
      if (!groups.every(({ labels }) => selector.matches(labels))) return undefined;
      if (orphansIn(this.#pods, namespace).some(({ metadata }) => selector.matches(metadata?.labels))) return undefined;
    }
    const hasLabels = labelsOfTemplate(set);
    const counts = { active: 0, ready: 0, available: 0, labeled: 0, terminating: 0, nextAvailableMs: Number.POSITIVE_INFINITY };
    for (const { labels, active, ready, terminating } of groups) {
      counts.active += active;
      counts.ready += ready;
      counts.available += ready;
      counts.terminating += terminating;
      if (hasLabels(labels)) counts.labeled += active;
    }
    return counts;
  }

  #countPods(set: T, all: readonly Pod[], minReady: number): Counts {
    const now = this.#clock.now();
    const hasLabels = labelsOfTemplate(set);
    const counts = { active: 0, ready: 0, available: 0, labeled: 0, terminating: 0, nextAvailableMs: Number.POSITIVE_INFINITY };
    for (const pod of all) {
      if (isPodTerminating(pod)) counts.terminating += 1;
      if (!isActive(pod)) continue;
      counts.active += 1;
      if (hasLabels(pod.metadata?.labels)) counts.labeled += 1;
      const inMs = availableIn(pod, minReady, now);
      if (inMs === undefined) continue;
      counts.ready += 1;
      if (inMs === 0) counts.available += 1;
      else counts.nextAvailableMs = Math.min(counts.nextAvailableMs, inMs);
    }
    return counts;
  }

  async #canAdopt(set: T, { client }: ReconcileContext): Promise<boolean> {
    const fresh = await client.get(this.#kind.resource, objectName(set));
    return fresh.metadata?.uid === set.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /** Creates or deletes pods to reach `spec.replicas`, at most one burst per reconcile. Returns the first error. */
  async #manageReplicas(
    key: string,
    {
      set,
      active,
      all,
      context: { client },
    }: { readonly set: T; readonly active: number; readonly all: readonly Pod[] | undefined; readonly context: ReconcileContext },
  ): Promise<unknown> {
    const difference = (set.spec?.replicas ?? 1) - active;
    if (difference > 0) return this.#create(key, { set, count: Math.min(difference, burstReplicas), client });
    if (difference === 0) return undefined;
    const pods = (all ?? controlledBy(this.#pods, set.metadata?.uid ?? '')).filter(isActive);
    return this.#delete(key, set, { active: pods, count: Math.min(-difference, burstReplicas), client });
  }

  #create(key: string, { set, count, client }: { readonly set: T; readonly count: number; readonly client: Client }): Promise<unknown> {
    const owner = withTypeMeta(this.#kind.resource, set);
    const pod = podFromTemplate(set.spec?.template, { resource: this.#kind.resource, owner });
    return this.#control.create({ key, owner, client }, count, () => pod);
  }

  async #delete(
    key: string,
    set: T,
    { active, count, client }: { readonly active: readonly Pod[]; readonly count: number; readonly client: Client },
  ): Promise<unknown> {
    // pods of sibling sets with the same owner count as peers: a rollout then deletes from crowded nodes first
    const owner = controllerOf(set)?.uid;
    const siblings = owner === undefined ? [set] : controlledBy(this.#sets, owner);
    const peers = new Map<string, number>();
    for (const sibling of siblings)
      for (const pod of controlledBy(this.#pods, sibling.metadata?.uid ?? ''))
        if (isActive(pod)) peers.set(pod.spec?.nodeName ?? '', (peers.get(pod.spec?.nodeName ?? '') ?? 0) + 1);
    const podsToDelete = deletionOrder(active, {
      peersOnNode: peers,
      nowMs: this.#clock.now(),
      hasCosts: this.#kind.hasDeletionCosts,
    }).slice(0, count);
    return this.#control.delete({ key, owner: withTypeMeta(this.#kind.resource, set), client }, podsToDelete);
  }

  async #writeStatus(
    set: T,
    { counts, failure, context: { client } }: { readonly counts: Counts; readonly failure: unknown; readonly context: ReconcileContext },
  ): Promise<void> {
    const conditions = replicaFailure(set, { failure, active: counts.active, nowMs: this.#clock.now() });
    const status: ReplicaSetStatus = {
      replicas: counts.active,
      fullyLabeledReplicas: counts.labeled,
      readyReplicas: counts.ready,
      availableReplicas: counts.available,
      ...(this.#kind.countsTerminating && { terminatingReplicas: counts.terminating }),
      observedGeneration: set.metadata?.generation ?? 0,
      ...(conditions.length > 0 && { conditions }),
    };
    if (!sameStatus(set.status, status)) await this.#update(set, status, client);
  }

  async #update(set: T, status: ReplicaSetStatus, client: Client): Promise<void> {
    let base = set;
    for (let attempt = 0; ; attempt++) {
      try {
        await client.update(this.#kind.resource, { ...withTypeMeta(this.#kind.resource, base), status }, { subresource: 'status' });
        return;
      } catch (error) {
        if (isStatus(error, 'NotFound')) return;
        if (!isStatus(error, 'Conflict') || attempt >= statusRetries) throw error;
        base = await client.get(this.#kind.resource, objectName(set));
        if (base.metadata?.uid !== set.metadata?.uid) return;
      }
    }
  }
}

const labelsOfTemplate = ({ spec }: ReplicaSetLike) => {
  const expected = Object.entries(spec?.template?.metadata?.labels ?? {});
  return (labels: Readonly<Record<string, string>> | undefined) => expected.every(([label, value]) => labels?.[label] === value);
};

function replicaFailure(
  { spec, status }: ReplicaSetLike,
  { failure, active, nowMs }: { readonly failure: unknown; readonly active: number; readonly nowMs: number },
): readonly ReplicaSetCondition[] {
  const others = (status?.conditions ?? []).filter(({ type }) => type !== 'ReplicaFailure');
  if (failure === undefined) return others;
  const present = status?.conditions?.find(({ type }) => type === 'ReplicaFailure');
  if (present !== undefined) return status?.conditions ?? [];
  const reason = (spec?.replicas ?? 1) > active ? 'FailedCreate' : 'FailedDelete';
  return [
    ...others,
    { type: 'ReplicaFailure', status: 'True', reason, message: (failure as Error).message, lastTransitionTime: formatTime(nowMs) },
  ];
}

function sameStatus(old: ReplicaSetStatus | undefined, now: ReplicaSetStatus): boolean {
  const keys = [
    'replicas',
    'fullyLabeledReplicas',
    'readyReplicas',
    'availableReplicas',
    'terminatingReplicas',
    'observedGeneration',
  ] as const;
  return (
    keys.every((key) => (old?.[key] ?? 0) === (now[key] ?? 0)) &&
    JSON.stringify(old?.conditions ?? []) === JSON.stringify(now.conditions ?? [])
  );
}

export default Controllers.plugin({
  id: 'controller-replica-set',
  declares: { loop: 'replicaset' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, facts: optional(Cluster) },
  create({ informers, events, facts }, { clock }) {
    const sets = addOwnerIndexes(informers.forResource(replicaSets));
    const owners = new SelectorOwnerIndex(sets);
    return new ReplicaController({
      kind: {
        name: 'replicaset',
        resource: replicaSets,
        selectorOf,
        candidates: (namespace, labels) => owners.of(namespace, labels),
        countsTerminating: true,
        hasDeletionCosts: new FeatureGates(facts).enabled('PodDeletionCost'),
      },
      sets,
      pods: informers.forResource(podResource),
      recorder: events.recorder('replicaset-controller'),
      clock,
    });
  },
});
