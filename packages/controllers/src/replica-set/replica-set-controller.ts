import type { Selector } from '@oarlock/api/label-selector';
import { controllerOf, objectKey, type KubeObject } from '@oarlock/api/object';
import { pods as podResource, replicaSets } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { ReplicaSetCondition, ReplicaSetStatus } from '@oarlock/api/types/apps-v1';
import type { Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { expectPods, Expectations } from '../expectations.ts';
import { ownerKeys } from '../owner-keys.ts';
import { claim, indexByOwner, orphansIn, ownedBy } from '../ownership.ts';
import { PodControl } from '../pod-control.ts';
import { availableIn, isActive, isTerminating } from '../pod-state.ts';
import { nameOf, podFromTemplate, typed } from '../pod-template.ts';
import { selectorOf, SelectorOwners } from '../selector-owners.ts';
import { deletionOrder } from './deletion-order.ts';
import { tallyOf, type PodTally } from './pod-tally.ts';

const burst = 500; // pods created or deleted in one reconcile, as upstream
const statusRetries = 1;

/** What a ReplicaSet and a ReplicationController have in common. */
export interface ReplicaOwner extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly minReadySeconds?: number;
    readonly template?: PodTemplateSpec;
    readonly selector?: LabelSelector | Readonly<Record<string, string>>;
  };
  readonly status?: ReplicaSetStatus;
}

/** How the two kinds differ. */
export interface ReplicaKind<T extends ReplicaOwner> {
  readonly name: string;
  readonly resource: Resource<T>;
  selectorOf(set: T): Selector;
  /** Sets of a namespace that select these labels. */
  candidates(namespace: string, labels: Readonly<Record<string, string>> | undefined): readonly T[];
  /** Whether pods that end are counted in the status. */
  readonly countsEnding: boolean;
}

interface Parts<T extends ReplicaOwner> {
  readonly kind: ReplicaKind<T>;
  readonly sets: Informer<T>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** What a set has, as far as its status says it. */
interface Counts {
  readonly active: number;
  readonly ready: number;
  readonly available: number;
  readonly labeled: number;
  readonly terminating: number;
  /** Until the next pod counts as available; infinite: nobody waits. */
  readonly nextMs: number;
}

/** Keeps as many pods as `spec.replicas` says. */
export class ReplicaController<T extends ReplicaOwner> implements Controller {
  readonly name: string;
  readonly watches;
  readonly #kind: ReplicaKind<T>;
  readonly #sets: Informer<T>;
  readonly #pods: Informer<Pod>;
  readonly #clock: Clock;
  readonly #expectations: Expectations;
  readonly #control: PodControl;
  readonly #tally: PodTally;

  constructor({ kind, sets, pods, recorder, clock }: Parts<T>) {
    this.name = kind.name;
    this.#kind = kind;
    this.#sets = sets;
    this.#pods = indexByOwner(pods);
    this.#tally = tallyOf(pods);
    this.#clock = clock;
    this.#expectations = new Expectations(clock);
    this.#control = new PodControl(recorder, this.#expectations);
    const candidates = { of: kind.candidates };
    this.watches = [watch(sets, (set) => [objectKey(set)]), watch(pods, (pod, old) => ownerKeys(kind.resource.kind, candidates, pod, old))];
    expectPods(pods, kind.resource.kind, this.#expectations);
  }

  async reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void> {
    const set = this.#sets.get(key);
    if (set === undefined) {
      this.#expectations.forget(key);
      return undefined;
    }
    const settled = this.#expectations.met(key);
    const selector = this.#kind.selectorOf(set);
    const minReady = set.spec?.minReadySeconds ?? 0;
    const counts = this.#atOnce(set, selector, minReady);
    const all = counts === undefined ? await this.#claim(set, selector, context) : undefined;
    const seen = counts ?? this.#countEach(set, all ?? [], minReady);
    const failure =
      settled && set.metadata?.deletionTimestamp === undefined ? await this.#manage(key, set, seen.active, all, context) : undefined;
    await this.#writeStatus(set, seen, failure, context);
    if (failure !== undefined) throw failure;
    return Number.isFinite(seen.nextMs) ? { requeueAfterMs: seen.nextMs } : undefined;
  }

  #claim(set: T, selector: Selector, context: ReconcileContext): Promise<readonly Pod[]> {
    return claim({
      client: context.client,
      informer: this.#pods,
      resource: podResource,
      owner: typed(this.#kind.resource, set),
      selector,
      confirm: () => this.#stillThere(set, context),
    });
  }

  /** Counts without a look at each pod; undefined when there are pods to adopt, to let go of or to wait for. */
  #atOnce(set: T, selector: Selector, minReady: number): Counts | undefined {
    if (minReady > 0) return undefined;
    const { uid = '', namespace = '', deletionTimestamp } = set.metadata ?? {};
    const groups = this.#tally.of(uid);
    if (deletionTimestamp === undefined) {
      if (!groups.every(({ labels }) => selector.matches(labels))) return undefined;
      if (orphansIn(this.#pods, namespace).some(({ metadata }) => selector.matches(metadata?.labels))) return undefined;
    }
    const hasLabels = labelsOfTemplate(set);
    const counts = { active: 0, ready: 0, available: 0, labeled: 0, terminating: 0, nextMs: Number.POSITIVE_INFINITY };
    for (const { labels, active, ready, terminating } of groups) {
      counts.active += active;
      counts.ready += ready;
      counts.available += ready;
      counts.terminating += terminating;
      if (hasLabels(labels)) counts.labeled += active;
    }
    return counts;
  }

  #countEach(set: T, all: readonly Pod[], minReady: number): Counts {
    const now = this.#clock.now();
    const hasLabels = labelsOfTemplate(set);
    const counts = { active: 0, ready: 0, available: 0, labeled: 0, terminating: 0, nextMs: Number.POSITIVE_INFINITY };
    for (const pod of all) {
      if (isTerminating(pod)) counts.terminating += 1;
      if (!isActive(pod)) continue;
      counts.active += 1;
      if (hasLabels(pod.metadata?.labels)) counts.labeled += 1;
      const inMs = availableIn(pod, minReady, now);
      if (inMs === undefined) continue;
      counts.ready += 1;
      if (inMs === 0) counts.available += 1;
      else counts.nextMs = Math.min(counts.nextMs, inMs);
    }
    return counts;
  }

  async #stillThere(set: T, { client }: ReconcileContext): Promise<boolean> {
    const fresh = await client.get(this.#kind.resource, nameOf(set));
    return fresh.metadata?.uid === set.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /** One step towards the wanted number. Returns what went wrong. */
  async #manage(key: string, set: T, active: number, all: readonly Pod[] | undefined, { client }: ReconcileContext): Promise<unknown> {
    const difference = (set.spec?.replicas ?? 1) - active;
    if (difference > 0) return this.#create(key, set, Math.min(difference, burst), client);
    if (difference === 0) return undefined;
    const pods = (all ?? ownedBy(this.#pods, set.metadata?.uid ?? '')).filter(isActive);
    return this.#delete(key, set, pods, Math.min(-difference, burst), client);
  }

  #create(key: string, set: T, count: number, client: Client): Promise<unknown> {
    const owner = typed(this.#kind.resource, set);
    const pod = podFromTemplate(set.spec?.template, this.#kind.resource, owner);
    return this.#control.create({ key, owner, client }, count, () => pod);
  }

  async #delete(key: string, set: T, active: readonly Pod[], count: number, client: Client): Promise<unknown> {
    // pods of other sets of the same owner count as peers too: a rollout then thins out crowded nodes first
    const owner = controllerOf(set)?.uid;
    const siblings = owner === undefined ? [set] : ownedBy(this.#sets, owner);
    const peers = new Map<string, number>();
    for (const sibling of siblings)
      for (const pod of ownedBy(this.#pods, sibling.metadata?.uid ?? ''))
        if (isActive(pod)) peers.set(pod.spec?.nodeName ?? '', (peers.get(pod.spec?.nodeName ?? '') ?? 0) + 1);
    const doomed = deletionOrder(active, peers, this.#clock.now()).slice(0, count);
    return this.#control.delete({ key, owner: typed(this.#kind.resource, set), client }, doomed);
  }

  async #writeStatus(set: T, counts: Counts, failure: unknown, { client }: ReconcileContext): Promise<void> {
    const conditions = replicaFailure(set, failure, counts.active, this.#clock.now());
    const status: ReplicaSetStatus = {
      replicas: counts.active,
      fullyLabeledReplicas: counts.labeled,
      readyReplicas: counts.ready,
      availableReplicas: counts.available,
      ...(this.#kind.countsEnding && { terminatingReplicas: counts.terminating }),
      observedGeneration: set.metadata?.generation ?? 0,
      ...(conditions.length > 0 && { conditions }),
    };
    if (!sameStatus(set.status, status)) await this.#update(set, status, client);
  }

  async #update(set: T, status: ReplicaSetStatus, client: Client): Promise<void> {
    let base = set;
    for (let attempt = 0; ; attempt++) {
      try {
        await client.update(this.#kind.resource, { ...typed(this.#kind.resource, base), status }, { subresource: 'status' });
        return;
      } catch (error) {
        if (isStatus(error, 'NotFound')) return;
        if (!isStatus(error, 'Conflict') || attempt >= statusRetries) throw error;
        base = await client.get(this.#kind.resource, nameOf(set));
        if (base.metadata?.uid !== set.metadata?.uid) return;
      }
    }
  }
}

const labelsOfTemplate = ({ spec }: ReplicaOwner) => {
  const wanted = Object.entries(spec?.template?.metadata?.labels ?? {});
  return (labels: Readonly<Record<string, string>> | undefined) => wanted.every(([label, value]) => labels?.[label] === value);
};

function replicaFailure({ spec, status }: ReplicaOwner, failure: unknown, active: number, nowMs: number): readonly ReplicaSetCondition[] {
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
  needs: { informers: Informers, events: Events },
  create({ informers, events }, { clock }) {
    const sets = indexByOwner(informers.of(replicaSets));
    const owners = new SelectorOwners(sets);
    return new ReplicaController({
      kind: {
        name: 'replicaset',
        resource: replicaSets,
        selectorOf,
        candidates: (namespace, labels) => owners.of(namespace, labels),
        countsEnding: true,
      },
      sets,
      pods: informers.of(podResource),
      recorder: events.recorder('replicaset-controller'),
      clock,
    });
  },
});
