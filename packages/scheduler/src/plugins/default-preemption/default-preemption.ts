import { objectKey } from '@oarlock/api/object';
import { podDisruptionBudgets } from '@oarlock/api/resources';
import type { PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import { Client, Events, Informers, type Informer } from '@oarlock/spi/client';
import {
  Scheduling,
  success,
  unschedulable,
  unschedulableAndUnresolvable,
  type CycleState,
  type NodeToStatus,
  type PodGroupDryRun,
  type PodGroupInfo,
  type PodGroupPostFilterResult,
  type PodInfo,
  type PostFilterStatus,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { fitErrorMessage } from '../../framework/fit-error.ts';
import { withConfigurableArgs } from '../helper/plugin-args.ts';
import { pickOneNodeForPreemption } from './candidates.ts';
import { podGroupIneligibleReason, podIneligibleReason } from './eligibility.ts';
import { PreemptionEvaluator } from './evaluator.ts';
import { PreemptionExecutor, type Preemptor } from './executor.ts';
import { selectPodGroupVictims } from './pod-group-preemption.ts';
import { PreemptionMetrics } from './preemption-metrics.ts';

const args = z
  .strictObject({
    /** Percentage of the nodes on which preemption may help that must become candidates before the search ends. */
    minCandidateNodesPercentage: z.number().int().min(0).max(100).default(10),
    minCandidateNodesAbsolute: z.number().int().min(0).default(100),
  })
  .refine(({ minCandidateNodesPercentage, minCandidateNodesAbsolute }) => minCandidateNodesPercentage + minCandidateNodesAbsolute > 0, {
    error: 'this and minCandidateNodesAbsolute must not both be 0',
    path: ['minCandidateNodesPercentage'],
  });
type Args = z.output<typeof args>;

const defaultSchedulerName = 'default-scheduler';

const podPreemptor = ({ pod, key }: PodInfo, node: string): Preemptor => ({
  schedulerName: pod.spec?.schedulerName ?? defaultSchedulerName,
  description: `pod ${pod.metadata?.uid ?? ''} on node ${node}`,
  object: pod,
  keys: [key],
});

/**
 * The plugin DefaultPreemption: if a pod fits no node, preempts pods of lower priority on the node with the least cost and nominates the pod to
 * that node.
 */
class DefaultPreemption {
  readonly #budgets: Informer<PodDisruptionBudget>;
  readonly #evaluator: PreemptionEvaluator;
  readonly #executor: PreemptionExecutor;
  readonly #metrics: PreemptionMetrics;

  constructor(budgets: Informer<PodDisruptionBudget>, executor: PreemptionExecutor, metrics: PreemptionMetrics) {
    this.#budgets = budgets;
    this.#evaluator = new PreemptionEvaluator((namespace) => budgets.list(namespace));
    this.#executor = executor;
    this.#metrics = metrics;
  }

  withArgs(pluginArgs: Args): SchedulingPlugin {
    return {
      name: 'DefaultPreemption',
      eventsToRegister: [{ kind: 'AssignedPod', actions: ['deleted'] }],
      whenSynced: (signal) => this.#budgets.whenSynced(signal),
      setHandle: (handle) => this.#executor.setHandle(handle),
      preEnqueue: (pod) =>
        this.#executor.isPreempting(objectKey(pod))
          ? unschedulableAndUnresolvable('waiting for the preemption for this pod to be finished')
          : success,
      postFilter: (state, pod, nodeToStatus) => this.#postFilter(state, { pod, rejections: nodeToStatus, pluginArgs }),
      podGroupPostFilter: (podGroup, dryRun) => this.#podGroupPostFilter(podGroup, dryRun),
    };
  }

  async #postFilter(
    state: CycleState,
    { pod, rejections, pluginArgs }: { readonly pod: PodInfo; readonly rejections: NodeToStatus; readonly pluginArgs: Args },
  ): Promise<PostFilterStatus> {
    this.#metrics.countAttempt();
    const ineligible = podIneligibleReason(state, pod, rejections);
    if (ineligible !== undefined) return unschedulable(`preemption: ${ineligible}`);
    const { candidates, nodeToStatus } = this.#evaluator.findCandidates(state, { pod, rejections, candidateLimits: pluginArgs });
    const accepted = candidates.length === 0 ? candidates : ((await state.callPreemptionExtenders?.(pod, candidates)) ?? candidates);
    const best = pickOneNodeForPreemption(accepted);
    if (best === undefined) {
      const { nodes } = state.snapshot;
      const notHelpful = {
        plugin: 'DefaultPreemption',
        status: unschedulableAndUnresolvable('Preemption is not helpful for scheduling'),
      };
      for (const { name } of nodes) if (!nodeToStatus.has(name)) nodeToStatus.set(name, notHelpful);
      return { ...unschedulable(`preemption: ${fitErrorMessage(nodes.length, nodeToStatus)}`), nominatedNodeName: '' };
    }
    this.#preempt(best.victims, podPreemptor(pod, best.node));
    return { code: 'success', nominatedNodeName: best.node };
  }

  async #podGroupPostFilter({ preemption }: PodGroupInfo, dryRun: PodGroupDryRun): Promise<PodGroupPostFilterResult> {
    if (preemption === undefined) return success;
    this.#metrics.countAttempt();
    const ineligible = podGroupIneligibleReason(preemption, dryRun);
    if (ineligible !== undefined) return unschedulable(`preemption: ${ineligible}`);
    const result = await selectPodGroupVictims(preemption, dryRun, (namespace) => this.#budgets.list(namespace));
    if ('code' in result) return 'reasons' in result ? unschedulable(`preemption: ${result.reasons.join(', ')}`) : result;
    const { object } = preemption;
    this.#preempt(result.victims, {
      schedulerName: dryRun.members[0]?.pod.spec?.schedulerName ?? defaultSchedulerName,
      description: `podgroup ${object.metadata?.uid ?? ''} on node cluster`,
      object,
      keys: dryRun.members.map(({ key }) => key),
    });
    return { code: 'success', nominatedNodeNames: result.nominatedNodeNames };
  }

  /** Deletes the victims in the background. */
  #preempt(victims: readonly PodInfo[], preemptor: Preemptor): void {
    this.#metrics.observeVictims(victims.length);
    void this.#executor.preemptPods(victims, preemptor);
  }
}

export const defaultPreemption = Scheduling.plugin({
  id: 'scheduling-default-preemption',
  config: args,
  needs: { client: Client, informers: Informers, events: Events },
  create({ config, client, informers, events }, { clock, log, metrics }): SchedulingPlugin {
    const executor = new PreemptionExecutor({ client, events, clock, log });
    const plugin = new DefaultPreemption(informers.forResource(podDisruptionBudgets), executor, new PreemptionMetrics(metrics));
    return withConfigurableArgs(args, config, (pluginArgs) => plugin.withArgs(pluginArgs));
  },
});
