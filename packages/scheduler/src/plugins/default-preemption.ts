import { hostname } from 'node:os';
import { podDisruptionBudgets, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { objectKey, type KubeObject } from '@oarlock/api/object';
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
  type TeamPreemption,
  type TeamTrial,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { unschedulableMessage } from '../node-search.ts';
import { priorityOf } from '../nominations.ts';
import { configurable } from '../plugin-args.ts';
import { leastHarm, selectVictims } from './preemption-candidates.ts';
import { makeTeamRoom } from './team-preemption.ts';

const isPreempted = ({ metadata, status }: Pod): boolean =>
  metadata?.deletionTimestamp !== undefined &&
  status?.conditions?.some(
    ({ type, status: is, reason }) => type === 'DisruptionTarget' && is === 'True' && reason === 'PreemptionByScheduler',
  ) === true;

const notEligible = {
  never: 'not eligible due to preemptionPolicy=Never.',
  leaving: 'not eligible due to a terminating pod on the nominated node.',
};

/** Why a pod may not take the place of others now: undefined when it may. */
function ineligible(state: CycleState, pod: PodInfo, refusals: Refusals): string | undefined {
  if (pod.pod.spec?.preemptionPolicy === 'Never') return notEligible.never;
  const nominated = state.nominatedNode?.(pod) ?? pod.pod.status?.nominatedNodeName;
  if (!nominated || refusals.get(nominated)?.outcome.code === 'unresolvable') return undefined;
  const leaving = state.snapshot.get(nominated)?.pods.some((other) => priorityOf(other) < priorityOf(pod) && isPreempted(other.pod));
  return leaving ? notEligible.leaving : undefined;
}

/** The same for a team. */
function ineligibleTeam({ priority, teamOf }: TeamPreemption, { members, snapshot, nominatedNode }: TeamTrial): string | undefined {
  if (members.some(({ pod }) => pod.spec?.preemptionPolicy === 'Never')) return notEligible.never;
  const nominated = new Set(members.map((member) => nominatedNode(member) ?? member.pod.status?.nominatedNodeName ?? ''));
  const leaving = [...nominated].some((name) =>
    snapshot.get(name)?.pods.some((other) => (teamOf(other.pod)?.priority ?? priorityOf(other)) < priority && isPreempted(other.pod)),
  );
  return leaving ? notEligible.leaving : undefined;
}

/** In whose favour pods are taken away. */
interface Preemptor {
  readonly schedulerName: string;
  /** In words: who it is, and where. */
  readonly what: string;
  readonly object: KubeObject;
  /** Keys of the pods that wait until it is done. */
  readonly keys: readonly string[];
}

const preemptorOf = ({ pod, key }: PodInfo, node: string): Preemptor => ({
  schedulerName: pod.spec?.schedulerName ?? 'default-scheduler',
  what: `pod ${pod.metadata?.uid ?? ''} on node ${node}`,
  object: pod,
  keys: [key],
});

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
    const recorderOf = (name: string) => {
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

    const evict = async (victim: PodInfo, { schedulerName, what, object }: Preemptor): Promise<void> => {
      const { metadata, status } = victim.pod;
      const held = scheduler?.held(victim.key);
      if (held !== undefined) held.reject('DefaultPreemption', 'preempted');
      else if (metadata?.deletionTimestamp === undefined) {
        const name = { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' };
        const condition = {
          type: 'DisruptionTarget',
          ...(metadata?.generation !== undefined && { observedGeneration: metadata.generation }),
          status: 'True',
          reason: 'PreemptionByScheduler',
          message: `${schedulerName}: preempting to accommodate a higher priority pod`,
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
      const action = { name: 'Preempting', related: object };
      recorderOf(schedulerName).event(victim.pod, 'Normal', 'Preempted', `Preempted by ${what}`, undefined, action);
    };

    /** In the background: until it is done the pods are not tried. */
    const evictAll = async (victims: readonly PodInfo[], preemptor: Preemptor): Promise<void> => {
      const { keys, what } = preemptor;
      for (const key of keys) running.add(key);
      const done = () => {
        for (const key of keys) running.delete(key);
      };
      try {
        await Promise.all(victims.slice(1).map((victim) => evict(victim, preemptor)));
        // before the last one, whose end is what the pods wait for
        done();
        await Promise.all(victims.slice(0, 1).map((victim) => evict(victim, preemptor)));
      } catch (error) {
        done();
        log.warn({ preemptor: what, err: error }, 'the victims of a preemption could not be taken away');
        for (const key of keys) scheduler?.activate(key);
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
        void evictAll(best.victims, preemptorOf(pod, best.node));
        return { code: 'success', nominated: best.node };
      },
      async postFilterTeam({ preemption }, trial) {
        if (preemption === undefined) return success;
        const barred = ineligibleTeam(preemption, trial);
        if (barred !== undefined) return unschedulable(`preemption: ${barred}`);
        const room = await makeTeamRoom(preemption, trial, (namespace) => budgets.list(namespace));
        if ('code' in room) return 'reasons' in room ? unschedulable(`preemption: ${room.reasons.join(', ')}`) : room;
        const { object } = preemption;
        void evictAll(room.victims, {
          schedulerName: trial.members[0]?.pod.spec?.schedulerName ?? 'default-scheduler',
          what: `podgroup ${object.metadata?.uid ?? ''} on node cluster`,
          object,
          keys: trial.members.map(({ key }) => key),
        });
        return { code: 'success', nominated: room.nominated };
      },
    }));
  },
});
