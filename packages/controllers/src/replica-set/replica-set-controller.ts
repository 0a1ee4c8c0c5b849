import { selectorFromObject } from '@oarlock/api/label-selector';
import { controllerOf, controllerRef, objectKey } from '@oarlock/api/object';
import { pods as podResource, replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { ReplicaSet, ReplicaSetCondition, ReplicaSetStatus } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { Expectations, slowStart } from '../expectations.ts';
import { claim, indexByOwner, ownedBy } from '../ownership.ts';
import { availableIn, isActive, isTerminating } from '../pod-state.ts';
import { deletionOrder } from './deletion-order.ts';

const burst = 500; // pods created or deleted in one reconcile, as upstream
const statusRetries = 1;

interface Parts {
  readonly sets: Informer<ReplicaSet>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Keeps as many pods as `spec.replicas` says. */
export class ReplicaSetController implements Controller {
  readonly name = 'replicaset';
  readonly watches;
  readonly #sets: Informer<ReplicaSet>;
  readonly #pods: Informer<Pod>;
  readonly #recorder: EventRecorder;
  readonly #clock: Clock;
  readonly #expectations: Expectations;

  constructor({ sets, pods, recorder, clock }: Parts) {
    this.#sets = sets;
    this.#pods = indexByOwner(pods);
    this.#recorder = recorder;
    this.#clock = clock;
    this.#expectations = new Expectations(clock);
    this.watches = [watch(sets, (set) => [objectKey(set)]), watch(pods, (pod, old) => this.#keysOf(pod, old))];
    pods.on({
      added: (pod) => this.#seen(pod),
      updated: (pod) => {
        if (isTerminating(pod)) this.#gone(pod);
      },
      deleted: (pod) => this.#gone(pod),
    });
  }

  async reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void> {
    const set = this.#sets.get(key);
    if (set === undefined) {
      this.#expectations.forget(key);
      return undefined;
    }
    const settled = this.#expectations.met(key);
    const selector = selectorFromObject(set.spec?.selector);
    const all = await claim({
      client: context.client,
      informer: this.#pods,
      resource: podResource,
      owner: set,
      selector,
      confirm: () => this.#stillThere(set, context),
    });
    const active = all.filter(isActive);
    const failure = settled && set.metadata?.deletionTimestamp === undefined ? await this.#manage(key, set, active, context) : undefined;
    const again = await this.#writeStatus(set, all, active, failure, context);
    if (failure !== undefined) throw failure;
    return again;
  }

  #keysOf(pod: Pod, old: Pod | undefined): Iterable<string> {
    const keys = new Set<string>();
    const namespace = pod.metadata?.namespace ?? '';
    for (const ref of [controllerOf(pod), old && controllerOf(old)]) if (ref?.kind === 'ReplicaSet') keys.add(`${namespace}/${ref.name}`);
    if (controllerOf(pod) === undefined)
      for (const set of this.#sets.list(namespace))
        if (selectorFromObject(set.spec?.selector).matches(pod.metadata?.labels)) keys.add(objectKey(set));
    return keys;
  }

  #ownerKey(pod: Pod): string | undefined {
    const ref = controllerOf(pod);
    return ref?.kind === 'ReplicaSet' ? `${pod.metadata?.namespace}/${ref.name}` : undefined;
  }
  #seen(pod: Pod): void {
    const key = this.#ownerKey(pod);
    if (key !== undefined) this.#expectations.created(key);
  }
  #gone(pod: Pod): void {
    const key = this.#ownerKey(pod);
    if (key !== undefined) this.#expectations.deleted(key, pod.metadata?.uid ?? '');
  }

  async #stillThere(set: ReplicaSet, { client }: ReconcileContext): Promise<boolean> {
    const fresh = await client.get(replicaSets, { namespace: set.metadata?.namespace ?? '', name: set.metadata?.name ?? '' });
    return fresh.metadata?.uid === set.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /** One step towards the wanted number. Returns what went wrong. */
  async #manage(key: string, set: ReplicaSet, active: readonly Pod[], { client }: ReconcileContext): Promise<unknown> {
    const difference = (set.spec?.replicas ?? 1) - active.length;
    if (difference > 0) return this.#create(key, set, Math.min(difference, burst), client);
    if (difference < 0) return this.#delete(key, set, active, Math.min(-difference, burst), client);
    return undefined;
  }

  async #create(key: string, set: ReplicaSet, count: number, client: Client): Promise<unknown> {
    const { template } = set.spec ?? {};
    const namespace = set.metadata?.namespace ?? '';
    const pod: Pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        namespace,
        generateName: `${set.metadata?.name}-`,
        ownerReferences: [controllerRef({ ...set, apiVersion: 'apps/v1', kind: 'ReplicaSet' })],
        ...(template?.metadata?.labels && { labels: template.metadata.labels }),
        ...(template?.metadata?.annotations && { annotations: template.metadata.annotations }),
        ...(template?.metadata?.finalizers && { finalizers: template.metadata.finalizers }),
      },
      ...(template?.spec && { spec: template.spec }),
    };
    this.#expectations.creations(key, count);
    let begun = 0;
    const { error } = await slowStart(count, async () => {
      begun += 1;
      try {
        const made = await client.create(podResource, pod);
        this.#recorder.event(set, 'Normal', 'SuccessfulCreate', `Created pod: ${made.metadata?.name}`);
      } catch (failure) {
        this.#expectations.creationFailed(key);
        if (isStatus(failure, 'Forbidden') && failure.status.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating'))
          return;
        this.#recorder.event(set, 'Warning', 'FailedCreate', `Error creating: ${(failure as Error).message}`);
        throw failure;
      }
    });
    for (let skipped = count - begun; skipped > 0; skipped--) this.#expectations.creationFailed(key);
    return error;
  }

  async #delete(key: string, set: ReplicaSet, active: readonly Pod[], count: number, client: Client): Promise<unknown> {
    // pods of other sets of the same owner count as peers too: a rollout then thins out crowded nodes first
    const owner = controllerOf(set)?.uid;
    const siblings = owner === undefined ? [set] : ownedBy(this.#sets, owner);
    const peers = new Map<string, number>();
    for (const sibling of siblings)
      for (const pod of ownedBy(this.#pods, sibling.metadata?.uid ?? ''))
        if (isActive(pod)) peers.set(pod.spec?.nodeName ?? '', (peers.get(pod.spec?.nodeName ?? '') ?? 0) + 1);
    const doomed = deletionOrder(active, peers, this.#clock.now()).slice(0, count);
    for (const pod of doomed) this.#expectations.deletion(key, pod.metadata?.uid ?? '');
    const results = await Promise.allSettled(
      doomed.map(async (pod) => {
        const uid = pod.metadata?.uid ?? '';
        try {
          await client.delete(
            podResource,
            { namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '' },
            { preconditions: { uid } },
          );
          this.#recorder.event(set, 'Normal', 'SuccessfulDelete', `Deleted pod: ${pod.metadata?.name}`);
        } catch (failure) {
          this.#expectations.deleted(key, uid);
          if (isStatus(failure, 'NotFound', 'Conflict')) return;
          this.#recorder.event(set, 'Warning', 'FailedDelete', `Error deleting: ${(failure as Error).message}`);
          throw failure;
        }
      }),
    );
    return results.find((result) => result.status === 'rejected')?.reason;
  }

  async #writeStatus(
    set: ReplicaSet,
    all: readonly Pod[],
    active: readonly Pod[],
    failure: unknown,
    { client }: ReconcileContext,
  ): Promise<ReconcileResult | undefined> {
    const minReady = set.spec?.minReadySeconds ?? 0;
    const now = this.#clock.now();
    const templateLabels = Object.entries(set.spec?.template?.metadata?.labels ?? {});
    const counts = { ready: 0, available: 0, labeled: 0 };
    let nextMs = Number.POSITIVE_INFINITY;
    for (const pod of active) {
      if (templateLabels.every(([label, value]) => pod.metadata?.labels?.[label] === value)) counts.labeled += 1;
      const inMs = availableIn(pod, minReady, now);
      if (inMs === undefined) continue;
      counts.ready += 1;
      if (inMs === 0) counts.available += 1;
      else nextMs = Math.min(nextMs, inMs);
    }
    const conditions = replicaFailure(set, failure, active.length, this.#clock.now());
    const status: ReplicaSetStatus = {
      replicas: active.length,
      fullyLabeledReplicas: counts.labeled,
      readyReplicas: counts.ready,
      availableReplicas: counts.available,
      terminatingReplicas: all.filter(isTerminating).length,
      observedGeneration: set.metadata?.generation ?? 0,
      ...(conditions.length > 0 && { conditions }),
    };
    if (!sameStatus(set.status, status)) await this.#update(set, status, client);
    return Number.isFinite(nextMs) ? { requeueAfterMs: nextMs } : undefined;
  }

  async #update(set: ReplicaSet, status: ReplicaSetStatus, client: Client): Promise<void> {
    let base = set;
    for (let attempt = 0; ; attempt++) {
      try {
        await client.update(replicaSets, { ...base, apiVersion: 'apps/v1', kind: 'ReplicaSet', status }, { subresource: 'status' });
        return;
      } catch (error) {
        if (isStatus(error, 'NotFound')) return;
        if (!isStatus(error, 'Conflict') || attempt >= statusRetries) throw error;
        base = await client.get(replicaSets, { namespace: set.metadata?.namespace ?? '', name: set.metadata?.name ?? '' });
        if (base.metadata?.uid !== set.metadata?.uid) return;
      }
    }
  }
}

function replicaFailure({ spec, status }: ReplicaSet, failure: unknown, active: number, nowMs: number): readonly ReplicaSetCondition[] {
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
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new ReplicaSetController({
      sets: indexByOwner(informers.of(replicaSets)),
      pods: informers.of(podResource),
      recorder: events.recorder('replicaset-controller'),
      clock,
    }),
});
