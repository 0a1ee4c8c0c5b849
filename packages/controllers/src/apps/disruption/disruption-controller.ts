import { own } from '@oarlock/api/json/json';
import { objectKey, type ObjectKey } from '@oarlock/api/object';
import {
  deployments,
  podDisruptionBudgets,
  pods as podResource,
  replicaSets,
  replicationControllers,
  statefulSets,
} from '@oarlock/api/resources';
import { formatLabelSelector } from '@oarlock/api/selectors/format-label-selector';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Condition } from '@oarlock/api/types/meta-v1';
import type { PodDisruptionBudget, PodDisruptionBudgetStatus } from '@oarlock/api/types/policy-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import {
  Controllers,
  watch,
  type Controller,
  type ReconcileContext,
  type ReconcileResult,
  type ControllerWatch,
} from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';
import { conditionOf, isReady, isTerminal, isTerminating } from '../../pods/pod-state.ts';
import { withTypeMeta } from '../../objects/object-identity.ts';
import { podsByLabelIndex, podLabelKeys, podsMatchingSelector } from '../../indexes/pods-by-label.ts';
import { selectorOf, SelectorOwnerIndex } from '../../ownership/selector-owners.ts';
import { expectedPods, type OwnerInformers } from './expected-pods.ts';

const deletionTimeoutMs = 2 * 60_000; // an allowed eviction must delete its pod within this time (DeletionTimeout upstream)
const staleDisruptionTargetMs = 2 * 60_000; // age of a DisruptionTarget condition on a pod that was not deleted
const podPrefix = 'pod:';

interface DisruptionControllerOptions {
  readonly budgets: Informer<PodDisruptionBudget>;
  readonly pods: Informer<Pod>;
  readonly owners: OwnerInformers;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Computes how many pods of each PodDisruptionBudget may be evicted. */
export class DisruptionController implements Controller {
  readonly name = 'disruption';
  readonly watches;
  readonly #options: DisruptionControllerOptions;

  constructor(options: DisruptionControllerOptions) {
    this.#options = options;
    options.pods.addIndexer(podsByLabelIndex, podLabelKeys);
    const budgetIndex = new SelectorOwnerIndex(options.budgets, { emptyMatches: true });
    this.watches = [
      ...options.owners.kinds.watches(),
      ...ownerWatches(options.owners),
      watch(options.budgets, (budget) => [objectKey(budget)]),
      watch(options.pods, (pod, old) => {
        if (old !== undefined && !isRelevantPodChange(pod, old)) return [];
        const namespace = pod.metadata?.namespace ?? '';
        const matching = [...budgetIndex.keysOf(namespace, pod.metadata?.labels)];
        if (matching.length > 1) this.#reportMultipleBudgets(pod, matching);
        const keys = new Set(matching);
        if (old !== undefined && old.metadata?.labels !== pod.metadata?.labels)
          for (const key of budgetIndex.keysOf(namespace, old.metadata?.labels)) keys.add(key);
        if (isDisruptionTarget(pod)) keys.add(`${podPrefix}${objectKey(pod)}`);
        return keys;
      }),
    ];
  }

  addDynamicWatches(): () => void {
    return this.#options.owners.kinds.on();
  }

  #reportMultipleBudgets(pod: Pod, budgets: readonly ObjectKey[]): void {
    const { namespace = '', name = '' } = pod.metadata ?? {};
    const [first = ''] = budgets.map((key) => key.slice(namespace.length + 1)).sort();
    this.#options.recorder.event(
      pod,
      'Warning',
      'MultiplePodDisruptionBudgets',
      `Pod "${namespace}"/"${name}" matches multiple PodDisruptionBudgets.  Chose "${first}" arbitrarily.`,
    );
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    if (key.startsWith(podPrefix)) return this.#clearStaleDisruptionTarget(key.slice(podPrefix.length), client);
    const budget = this.#options.budgets.get(key);
    if (budget === undefined) return undefined;
    try {
      return await this.#sync(budget, client);
    } catch (error) {
      if (isStatus(error, 'Conflict', 'NotFound')) throw error;
      // allow no eviction while the number of healthy pods is unknown
      await this.#updateStatus(
        budget,
        { ...budget.status, disruptionsAllowed: 0 },
        { reason: 'SyncFailed', message: (error as Error).message, client },
      );
      throw error;
    }
  }

  async #sync(budget: PodDisruptionBudget, client: Client): Promise<ReconcileResult | undefined> {
    const { pods, owners, recorder, clock } = this.#options;
    const now = clock.now();
    const selected = podsMatchingSelector(pods, {
      namespace: budget.metadata?.namespace ?? '',
      source: budget.spec?.selector,
      selector: selectorOf(budget),
    });
    if (selected.length === 0) recorder.event(budget, 'Normal', 'NoPods', 'No matching pods found');
    const { expected, desired, unmanaged } = await expectedPods(budget, { pods: selected, owners, client }).catch((error: unknown) => {
      recorder.event(
        budget,
        'Warning',
        'CalculateExpectedPodCountFailed',
        `Failed to calculate the number of expected pods: ${(error as Error).message}`,
      );
      throw error;
    });
    if (unmanaged.length > 0)
      recorder.event(
        budget,
        'Warning',
        'UnmanagedPods',
        `Pods selected by this PodDisruptionBudget (selector: ${formatLabelSelector(budget.spec?.selector)}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`,
      );
    const disruptedPods: Record<string, string> = {};
    let recheckMs = Number.POSITIVE_INFINITY;
    let healthy = 0;
    for (const pod of selected) {
      if (isTerminating(pod)) continue;
      const name = pod.metadata?.name ?? '';
      const since = own(budget.status?.disruptedPods, name);
      const remainingMs = since === undefined ? 0 : (parseTime(since) ?? 0) + deletionTimeoutMs - now;
      if (since !== undefined && remainingMs > 0) {
        disruptedPods[name] = since;
        recheckMs = Math.min(recheckMs, remainingMs);
        continue;
      }
      if (since !== undefined)
        recorder.event(
          pod,
          'Warning',
          'NotDeleted',
          `Pod was expected by PDB ${budget.metadata?.namespace}/${budget.metadata?.name} to be deleted but it wasn't`,
        );
      if (isReady(pod)) healthy += 1;
    }
    const allowed = expected > 0 ? Math.max(0, healthy - desired) : 0;
    const status: PodDisruptionBudgetStatus = {
      ...(budget.status?.conditions && { conditions: budget.status.conditions }),
      currentHealthy: healthy,
      desiredHealthy: desired,
      expectedPods: expected,
      disruptionsAllowed: allowed,
      ...(Object.keys(disruptedPods).length > 0 && { disruptedPods }),
      observedGeneration: budget.metadata?.generation ?? 0,
    };
    await this.#updateStatus(budget, status, { reason: allowed > 0 ? 'SufficientPods' : 'InsufficientPods', message: '', client });
    return Number.isFinite(recheckMs) ? { requeueAfterMs: recheckMs } : undefined;
  }

  async #updateStatus(
    budget: PodDisruptionBudget,
    status: PodDisruptionBudgetStatus,
    { reason, message, client }: { readonly reason: string; readonly message: string; readonly client: Client },
  ): Promise<void> {
    // after a failed sync, the generation that the counts describe
    const observedGeneration = status.observedGeneration ?? 0;
    const value = reason === 'SufficientPods' ? 'True' : 'False';
    const old = budget.status?.conditions?.find(({ type }) => type === 'DisruptionAllowed');
    const same = old?.status === value && old.reason === reason && old.message === message && old.observedGeneration === observedGeneration;
    const condition: Condition = {
      type: 'DisruptionAllowed',
      status: value,
      reason,
      message,
      observedGeneration,
      lastTransitionTime: old?.status === value ? old.lastTransitionTime : formatTime(this.#options.clock.now()),
    };
    const counts = ['currentHealthy', 'desiredHealthy', 'expectedPods', 'disruptionsAllowed', 'observedGeneration'] as const;
    if (
      same &&
      counts.every((count) => (budget.status?.[count] ?? 0) === (status[count] ?? 0)) &&
      JSON.stringify(budget.status?.disruptedPods ?? {}) === JSON.stringify(status.disruptedPods ?? {})
    )
      return;
    const conditions = [...(status.conditions ?? []).filter(({ type }) => type !== 'DisruptionAllowed'), condition];
    await client.update(
      podDisruptionBudgets,
      { ...withTypeMeta(podDisruptionBudgets, budget), status: { ...status, conditions } },
      { subresource: 'status' },
    );
  }

  /** Sets the DisruptionTarget condition to False on a pod that was to be evicted but was not deleted in time. */
  async #clearStaleDisruptionTarget(key: ObjectKey, client: Client): Promise<ReconcileResult | undefined> {
    const { pods, clock } = this.#options;
    const pod = pods.get(key);
    const condition = pod && isDisruptionTarget(pod) ? conditionOf(pod, 'DisruptionTarget') : undefined;
    if (pod === undefined || condition === undefined) return undefined;
    const remainingMs = (parseTime(condition.lastTransitionTime ?? '') ?? 0) + staleDisruptionTargetMs - clock.now();
    if (remainingMs > 0) return { requeueAfterMs: remainingMs };
    const generation = pod.metadata?.generation;
    const conditions = (pod.status?.conditions ?? []).map((condition) =>
      condition.type === 'DisruptionTarget'
        ? {
            type: 'DisruptionTarget',
            ...(generation !== undefined && { observedGeneration: generation }),
            status: 'False',
            lastTransitionTime: formatTime(clock.now()),
          }
        : condition,
    );
    try {
      await client.update(
        podResource,
        { ...withTypeMeta(podResource, pod), status: { ...pod.status, conditions } },
        { subresource: 'status' },
      );
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
    return undefined;
  }
}

/** Returns watches of the owners that enqueue no keys: the controller only reads the owners, but their informers must have synced first. */
const ownerWatches = ({
  sets,
  deployments: some,
  statefulSets: ordered,
  replicationControllers: elder,
}: OwnerInformers): readonly ControllerWatch[] => [watch(sets, noKeys), watch(some, noKeys), watch(ordered, noKeys), watch(elder, noKeys)];
const noKeys = () => [];

/** Returns true if the pod is to be disrupted soon. Conditions of kubelets are excluded: a kubelet may need any time until it deletes the pod. */
function isDisruptionTarget(pod: Pod): boolean {
  if (isTerminating(pod) || isTerminal(pod)) return false;
  const condition = conditionOf(pod, 'DisruptionTarget');
  return condition?.status === 'True' && condition.reason !== 'TerminationByKubelet';
}
const isRelevantPodChange = (pod: Pod, old: Pod) =>
  pod.metadata?.labels !== old.metadata?.labels ||
  pod.metadata?.deletionTimestamp !== old.metadata?.deletionTimestamp ||
  pod.metadata?.ownerReferences !== old.metadata?.ownerReferences ||
  pod.status?.conditions !== old.status?.conditions;

export default Controllers.plugin({
  id: 'controller-disruption',
  declares: { loop: 'disruption' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, client: Client },
  create: ({ informers, events, client }, { clock, log }) =>
    new DisruptionController({
      budgets: informers.forResource(podDisruptionBudgets),
      pods: informers.forResource(podResource),
      owners: {
        sets: informers.forResource(replicaSets),
        deployments: informers.forResource(deployments),
        statefulSets: informers.forResource(statefulSets),
        replicationControllers: informers.forResource(replicationControllers),
        kinds: DiscoveredKinds.shared({ informers, client, clock, log, random: Math.random }),
      },
      recorder: events.recorder('controllermanager'),
      clock,
    }),
});
