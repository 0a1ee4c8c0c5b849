import { podDisruptionBudgets, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Client, Events, Informers } from '@oarlock/spi/client';
import {
  Scheduling,
  unresolvable,
  unschedulable,
  type CycleState,
  type Outcome,
  type PodInfo,
  type Refusals,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { unschedulableMessage } from '../node-search.ts';
import { priorityOf } from '../nominations.ts';
import { leastHarm, selectVictims, type Candidate } from './preemption-candidates.ts';

const isPreempted = ({ metadata, status }: Pod): boolean =>
  metadata?.deletionTimestamp !== undefined &&
  status?.conditions?.some(
    ({ type, status: is, reason }) => type === 'DisruptionTarget' && is === 'True' && reason === 'PreemptionByScheduler',
  ) === true;

/** Why a pod may not take the place of others now: undefined when it may. */
function ineligible(state: CycleState, pod: PodInfo, refusals: Refusals): string | undefined {
  if (pod.pod.spec?.preemptionPolicy === 'Never') return 'not eligible due to preemptionPolicy=Never.';
  const nominated = state.nominatedNode?.(pod) ?? pod.pod.status?.nominatedNodeName;
  if (!nominated || refusals.get(nominated)?.outcome.code === 'unresolvable') return undefined;
  const leaving = state.snapshot.get(nominated)?.pods.some((other) => priorityOf(other) < priorityOf(pod) && isPreempted(other.pod));
  return leaving ? 'not eligible due to a terminating pod on the nominated node.' : undefined;
}

/** When a pod fits nowhere: takes away pods of less priority where that hurts least, and keeps their place for it. */
export const defaultPreemption = Scheduling.plugin({
  id: 'scheduling-default-preemption',
  config: z.strictObject({
    /** Of so many of the nodes that might do, in percent, and at least so many, the victims are worked out. */
    minCandidateNodesPercentage: z.number().int().min(0).max(100).default(10),
    minCandidateNodesAbsolute: z.number().int().min(1).default(100),
  }),
  needs: { client: Client, informers: Informers, events: Events },
  create({ config, client, informers, events }, { clock }): SchedulingPlugin {
    const budgets = informers.of(podDisruptionBudgets);
    const recorder = events.recorder('default-scheduler');
    let start = 0;

    const candidatesFor = (state: CycleState, pod: PodInfo, refusals: Refusals) => {
      const names = [...refusals].flatMap(([name, { outcome }]) => (outcome.code === 'unschedulable' ? [name] : []));
      const wanted = Math.max(config.minCandidateNodesAbsolute, Math.floor((names.length * config.minCandidateNodesPercentage) / 100));
      const found: Candidate[] = [];
      const statuses = new Map<string, { readonly plugin: string; readonly outcome: Outcome }>();
      let looked = 0;
      for (; looked < names.length && found.length < wanted; looked++) {
        const name = names[(start + looked) % names.length] ?? '';
        const trial = state.trial?.(pod, name);
        if (trial === undefined) continue;
        try {
          const selected = selectVictims(trial, pod, (namespace) => budgets.list(namespace));
          if ('victims' in selected) found.push(selected);
          else statuses.set(name, { plugin: 'DefaultPreemption', outcome: selected });
        } finally {
          trial.end();
        }
      }
      // not always the same nodes are looked at first
      start = names.length === 0 ? 0 : (start + looked) % names.length;
      return { found, statuses };
    };

    const evict = async (victim: PodInfo, pod: PodInfo, node: string): Promise<void> => {
      const { metadata, spec, status } = victim.pod;
      if (metadata?.deletionTimestamp === undefined) {
        const name = { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' };
        const condition = {
          type: 'DisruptionTarget',
          status: 'True',
          reason: 'PreemptionByScheduler',
          message: `${spec?.schedulerName ?? 'default-scheduler'}: preempting to accommodate a higher priority pod`,
          lastTransitionTime: formatTime(clock.now()),
        };
        try {
          if (!status?.conditions?.some(({ type, reason }) => type === condition.type && reason === condition.reason))
            await client.patch(
              pods,
              name,
              'strategic',
              { metadata: { uid: metadata?.uid }, status: { conditions: [condition] } },
              { subresource: 'status' },
            );
          await client.delete(pods, name, metadata?.uid === undefined ? {} : { preconditions: { uid: metadata.uid } });
        } catch (error) {
          if (!isStatus(error, 'NotFound')) throw error;
        }
      }
      recorder.event(victim.pod, 'Normal', 'Preempted', `Preempted by pod ${pod.pod.metadata?.uid ?? ''} on node ${node}`);
    };

    return {
      name: 'DefaultPreemption',
      ready: (signal) => budgets.whenSynced(signal),
      async postFilter(state, pod, refusals) {
        const barred = ineligible(state, pod, refusals);
        if (barred !== undefined) return unschedulable(`preemption: ${barred}`);
        const { found, statuses } = candidatesFor(state, pod, refusals);
        const best = leastHarm(found);
        if (best === undefined) {
          const { nodes } = state.snapshot;
          for (const { name } of nodes)
            if (!statuses.has(name))
              statuses.set(name, { plugin: 'DefaultPreemption', outcome: unresolvable('Preemption is not helpful for scheduling') });
          return { ...unschedulable(`preemption: ${unschedulableMessage(nodes.length, statuses)}`), nominated: '' };
        }
        await Promise.all(best.victims.map((victim) => evict(victim, pod, best.node)));
        return { code: 'success', nominated: best.node };
      },
    };
  },
});
