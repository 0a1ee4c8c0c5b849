import { objectKey, type ObjectKey } from '@oarlock/api/object';
import {
  deployments,
  podDisruptionBudgets,
  pods as podResource,
  replicaSets,
  replicationControllers,
  statefulSets,
} from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Condition } from '@oarlock/api/types/meta-v1';
import type { PodDisruptionBudget, PodDisruptionBudgetStatus } from '@oarlock/api/types/policy-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult, type Watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../discovered-kinds.ts';
import { conditionOf, isReady, isTerminal, isTerminating } from '../pod-state.ts';
import { typed } from '../pod-template.ts';
import { byLabel, podLabels, selectedPods } from '../pods-by-label.ts';
import { selectorOf, SelectorOwners } from '../selector-owners.ts';
import { expectedPods, type Owners } from './expected-pods.ts';

const deletionTimeoutMs = 2 * 60_000; // in which an eviction that was allowed has to show
const staleAfterMs = 2 * 60_000; // a pod that was to be disrupted and still lives
const podPrefix = 'pod:';

interface Parts {
  readonly budgets: Informer<PodDisruptionBudget>;
  readonly pods: Informer<Pod>;
  readonly owners: Owners;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Works out how many pods of each PodDisruptionBudget may be evicted now. */
export class DisruptionController implements Controller {
  readonly name = 'disruption';
  readonly watches;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.pods.addIndex(byLabel, podLabels);
    const selecting = new SelectorOwners(parts.budgets, { emptyMatches: true });
    this.watches = [
      ...parts.owners.kinds.watches(),
      ...asked(parts.owners),
      watch(parts.budgets, (budget) => [objectKey(budget)]),
      watch(parts.pods, (pod, old) => {
        if (old !== undefined && !matters(pod, old)) return [];
        const namespace = pod.metadata?.namespace ?? '';
        const keys = new Set(selecting.keysOf(namespace, pod.metadata?.labels));
        if (old !== undefined && old.metadata?.labels !== pod.metadata?.labels)
          for (const key of selecting.keysOf(namespace, old.metadata?.labels)) keys.add(key);
        if (isDoomed(pod)) keys.add(`${podPrefix}${objectKey(pod)}`);
        return keys;
      }),
    ];
  }

  follow(): () => void {
    return this.#parts.owners.kinds.on();
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    if (key.startsWith(podPrefix)) return this.#unmark(key.slice(podPrefix.length), client);
    const budget = this.#parts.budgets.get(key);
    if (budget === undefined) return undefined;
    try {
      return await this.#count(budget, client);
    } catch (error) {
      if (isStatus(error, 'Conflict', 'NotFound')) throw error;
      // nothing may be evicted while nobody knows how much there is
      await this.#write(budget, { ...budget.status, disruptionsAllowed: 0 }, 'SyncFailed', (error as Error).message, client);
      throw error;
    }
  }

  async #count(budget: PodDisruptionBudget, client: Client): Promise<ReconcileResult | undefined> {
    const { pods, owners, recorder, clock } = this.#parts;
    const now = clock.now();
    const selected = selectedPods(pods, budget.metadata?.namespace ?? '', budget.spec?.selector, selectorOf(budget));
    if (selected.length === 0) recorder.event(budget, 'Normal', 'NoPods', 'No matching pods found');
    const { expected, desired, unmanaged } = await expectedPods(budget, selected, owners, client).catch((error: unknown) => {
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
        `Pods selected by this PodDisruptionBudget (selector: ${selectorOf(budget).toString()}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`,
      );
    const disruptedPods: Record<string, string> = {};
    let recheckMs = Number.POSITIVE_INFINITY;
    let healthy = 0;
    for (const pod of selected) {
      if (isTerminating(pod)) continue;
      const name = pod.metadata?.name ?? '';
      const since = budget.status?.disruptedPods?.[name];
      const left = since === undefined ? 0 : (parseTime(since) ?? 0) + deletionTimeoutMs - now;
      if (since !== undefined && left > 0) {
        disruptedPods[name] = since;
        recheckMs = Math.min(recheckMs, left);
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
    await this.#write(budget, status, allowed > 0 ? 'SufficientPods' : 'InsufficientPods', '', client);
    return Number.isFinite(recheckMs) ? { requeueAfterMs: recheckMs } : undefined;
  }

  async #write(
    budget: PodDisruptionBudget,
    status: PodDisruptionBudgetStatus,
    reason: string,
    message: string,
    client: Client,
  ): Promise<void> {
    const observedGeneration = budget.metadata?.generation ?? 0;
    const value = reason === 'SufficientPods' ? 'True' : 'False';
    const old = budget.status?.conditions?.find(({ type }) => type === 'DisruptionAllowed');
    const same = old?.status === value && old.reason === reason && old.message === message && old.observedGeneration === observedGeneration;
    const condition: Condition = {
      type: 'DisruptionAllowed',
      status: value,
      reason,
      message,
      observedGeneration,
      lastTransitionTime: old?.status === value ? old.lastTransitionTime : formatTime(this.#parts.clock.now()),
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
      { ...typed(podDisruptionBudgets, budget), status: { ...status, conditions } },
      { subresource: 'status' },
    );
  }

  /** A pod whose disruption was announced and did not come is an ordinary pod again. */
  async #unmark(key: ObjectKey, client: Client): Promise<ReconcileResult | undefined> {
    const { pods, clock } = this.#parts;
    const pod = pods.get(key);
    const mark = pod && isDoomed(pod) ? conditionOf(pod, 'DisruptionTarget') : undefined;
    if (pod === undefined || mark === undefined) return undefined;
    const left = (parseTime(mark.lastTransitionTime ?? '') ?? 0) + staleAfterMs - clock.now();
    if (left > 0) return { requeueAfterMs: left };
    const conditions = (pod.status?.conditions ?? []).map((condition) =>
      condition.type === 'DisruptionTarget'
        ? { type: 'DisruptionTarget', status: 'False', lastTransitionTime: formatTime(clock.now()) }
        : condition,
    );
    try {
      await client.update(podResource, { ...typed(podResource, pod), status: { ...pod.status, conditions } }, { subresource: 'status' });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
    return undefined;
  }
}

/** Those that are only asked wake nobody, but have to be there first. */
const asked = ({ sets, deployments: some, statefulSets: ordered, replicationControllers: elder }: Owners): readonly Watch[] => [
  watch(sets, nobody),
  watch(some, nobody),
  watch(ordered, nobody),
  watch(elder, nobody),
];
const nobody = () => [];

const isDoomed = (pod: Pod) => !isTerminating(pod) && !isTerminal(pod) && conditionOf(pod, 'DisruptionTarget')?.status === 'True';
const matters = (pod: Pod, old: Pod) =>
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
      budgets: informers.of(podDisruptionBudgets),
      pods: informers.of(podResource),
      owners: {
        sets: informers.of(replicaSets),
        deployments: informers.of(deployments),
        statefulSets: informers.of(statefulSets),
        replicationControllers: informers.of(replicationControllers),
        kinds: DiscoveredKinds.of({ informers, client, clock, log, random: Math.random }),
      },
      recorder: events.recorder('controllermanager'),
      clock,
    }),
});
