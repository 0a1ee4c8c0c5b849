import { hostname } from 'node:os';
import { podDisruptionBudgets, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { objectKey } from '@oarlock/api/object';
import { formatTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Client, Events, Informers, type EventRecorder } from '@oarlock/spi/client';
import {
  Scheduling,
  success,
  unresolvable,
  unschedulable,
  type CycleState,
  type Eviction,
  type Outcome,
  type PodInfo,
  type Refusals,
  type SchedulerHandle,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { unschedulableMessage } from '../node-search.ts';
import { priorityOf } from '../nominations.ts';
import { configurable } from '../plugin-args.ts';
import { leastHarm, selectVictims } from './preemption-candidates.ts';

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

const args = z
  .strictObject({
    /** Of so many of the nodes that might do, in percent, and at least so many, the victims are worked out. */
    minCandidateNodesPercentage: z.number().int().min(0).max(100).default(10),
    minCandidateNodesAbsolute: z.number().int().min(0).default(100),
  })
  .refine(({ minCandidateNodesPercentage, minCandidateNodesAbsolute }) => minCandidateNodesPercentage + minCandidateNodesAbsolute > 0, {
    error: 'this and minCandidateNodesAbsolute must not both be 0',
    path: ['minCandidateNodesPercentage'],
  });

/** When a pod fits nowhere: takes away pods of less priority where that hurts least, and keeps their place for it. */
export const defaultPreemption = Scheduling.plugin({
  id: 'scheduling-default-preemption',
  config: args,
  needs: { client: Client, informers: Informers, events: Events },
  create({ config, client, informers, events }, { clock, log }): SchedulingPlugin {
    const budgets = informers.of(podDisruptionBudgets);
    const recorders = new Map<string, EventRecorder>();
    const recorderOf = ({ spec }: Pod) => {
      const name = spec?.schedulerName ?? 'default-scheduler';
      let recorder = recorders.get(name);
      if (recorder === undefined) recorders.set(name, (recorder = events.recorder(name, hostname())));
      return recorder;
    };
    /** Pods for which others are being taken away. */
    const running = new Set<string>();
    let scheduler: SchedulerHandle | undefined;
    let start = 0;

    const candidatesFor = (
      state: CycleState,
      pod: PodInfo,
      refusals: Refusals,
      { minCandidateNodesAbsolute, minCandidateNodesPercentage }: z.output<typeof args>,
    ) => {
      const names = [...refusals].flatMap(([name, { outcome }]) => (outcome.code === 'unschedulable' ? [name] : []));
      const wanted = Math.max(1, minCandidateNodesAbsolute, Math.floor((names.length * minCandidateNodesPercentage) / 100));
      const found: Eviction[] = [];
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
      const { metadata, status } = victim.pod;
      const held = scheduler?.held(victim.key);
      if (held !== undefined) held.reject('DefaultPreemption', 'preempted');
      else if (metadata?.deletionTimestamp === undefined) {
        const name = { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' };
        const condition = {
          type: 'DisruptionTarget',
          status: 'True',
          reason: 'PreemptionByScheduler',
          message: `${pod.pod.spec?.schedulerName ?? 'default-scheduler'}: preempting to accommodate a higher priority pod`,
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
      const message = `Preempted by pod ${pod.pod.metadata?.uid ?? ''} on node ${node}`;
      recorderOf(pod.pod).event(victim.pod, 'Normal', 'Preempted', message, undefined, { name: 'Preempting', related: pod.pod });
    };

    /** In the background: until it is done the pod is not tried. */
    const evictAll = async (victims: readonly PodInfo[], pod: PodInfo, node: string): Promise<void> => {
      running.add(pod.key);
      try {
        await Promise.all(victims.slice(1).map((victim) => evict(victim, pod, node)));
        // before the last one, whose end is what the pod waits for
        running.delete(pod.key);
        await Promise.all(victims.slice(0, 1).map((victim) => evict(victim, pod, node)));
      } catch (error) {
        running.delete(pod.key);
        log.warn({ pod: pod.key, node, err: error }, 'the victims of a preemption could not be taken away');
        scheduler?.activate(pod.key);
      }
    };

    return configurable(args, config, (given) => ({
      name: 'DefaultPreemption',
      requeueOn: [{ kind: 'AssignedPod', on: ['deleted'] }],
      ready: (signal) => budgets.whenSynced(signal),
      attach(handle) {
        scheduler = handle;
      },
      preEnqueue: (pod) => (running.has(objectKey(pod)) ? unresolvable('waiting for the preemption for this pod to be finished') : success),
      async postFilter(state, pod, refusals) {
        const barred = ineligible(state, pod, refusals);
        if (barred !== undefined) return unschedulable(`preemption: ${barred}`);
        const { found, statuses } = candidatesFor(state, pod, refusals, given);
        const best = leastHarm(found.length === 0 ? found : ((await state.extendPreemption?.(pod, found)) ?? found));
        if (best === undefined) {
          const { nodes } = state.snapshot;
          for (const { name } of nodes)
            if (!statuses.has(name))
              statuses.set(name, { plugin: 'DefaultPreemption', outcome: unresolvable('Preemption is not helpful for scheduling') });
          return { ...unschedulable(`preemption: ${unschedulableMessage(nodes.length, statuses)}`), nominated: '' };
        }
        const { key, requests, nonZeroRequests } = pod; // a copy: the queue changes its own
        void evictAll(best.victims, { pod: pod.pod, key, requests, nonZeroRequests }, best.node);
        return { code: 'success', nominated: best.node };
      },
    }));
  },
});
