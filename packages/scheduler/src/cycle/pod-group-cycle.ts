import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodGroupDryRun, PodGroupInfo, PodGroupPostFilterResult } from '@oarlock/spi/scheduling';
import type { SchedulerCache } from '../cache/scheduler-cache.ts';
import type { SchedulingProfile } from '../config/profiles.ts';
import type { Nominator } from '../queue/nominator.ts';
import type { QueuedPodInfo } from '../queue/queued-pod-info.ts';
import type { FailedAttempt, ScheduledPod } from './scheduling-attempt.ts';

export interface PodGroupMember {
  readonly podInfo: QueuedPodInfo;
  readonly profile: SchedulingProfile;
}
export interface PodGroupResult {
  readonly scheduled: readonly ScheduledPod[];
  readonly failed: readonly FailedAttempt[];
}
interface PodGroupAttempt extends PodGroupResult {
  /** Number of members that have a node, including members that had a node before the attempt. */
  readonly scheduledCount: number;
}

interface PodGroupCycleOptions {
  readonly podGroup: PodGroupInfo;
  /** The members of the pod group that are in the scheduling queue. */
  readonly members: readonly PodGroupMember[];
  readonly cache: SchedulerCache;
  readonly nominator: Nominator;
  /** Runs the scheduling cycle of a member, without preemption. */
  schedulePod(
    member: PodGroupMember,
    options: { readonly dryRun: boolean; readonly allowedNodes?: ReadonlySet<string> },
  ): Promise<ScheduledPod | FailedAttempt>;
  unreserveAndForget(scheduled: ScheduledPod): void;
}

/** Schedules the members of a pod group one after the other. If fewer than `minCount` members fit, none is scheduled. */
export class PodGroupCycle {
  readonly #options: PodGroupCycleOptions;

  constructor(options: PodGroupCycleOptions) {
    this.#options = options;
  }

  /** Schedules the members. If too few fit, reverts the attempt and runs the PostFilter plugins for the pod group, which may preempt pods. */
  async schedulePodGroup(): Promise<PodGroupResult> {
    const { podGroup, members } = this.#options;
    const restoreNominations = this.#saveNominations();
    const attempt = await this.#scheduleMembers(false);
    const { scheduled, failed, scheduledCount } = attempt;
    if (scheduledCount >= podGroup.minCount) {
      podGroup.reportAttempt(scheduledCount, '');
      return { scheduled, failed };
    }
    restoreNominations();
    const postFilterResult = members.length === 0 ? undefined : await this.#runPostFilterPlugins();
    const failures = failAllMembers(podGroup, attempt, postFilterResult);
    podGroup.reportAttempt(this.#countScheduledMembers(), failures[0]?.failure.message ?? '');
    return { scheduled: [], failed: failures };
  }

  /** Returns a function that restores the current nominations of the members, which an assumed pod loses. */
  #saveNominations(): () => void {
    const { members, nominator } = this.#options;
    const nominations = members.flatMap(({ podInfo }) => {
      const node = nominator.nominatedNodeName(podInfo.key);
      return node === undefined ? [] : [[podInfo, node] as const];
    });
    return () => {
      for (const [pod, node] of nominations) nominator.addNominatedPod(pod, node);
    };
  }

  #countScheduledMembers(): number {
    const { podGroup, cache } = this.#options;
    const selector = { key: `pod group ${podGroup.key}`, matches: (pod: Pod) => podGroup.has(pod) };
    return [...cache.podCountByNode(selector).values()].reduce((sum, count) => sum + count, 0);
  }

  /** Tries one topology domain after the other until enough members fit. Reverts attempts with too few members, and every dry run. */
  async #scheduleMembers(dryRun: boolean): Promise<PodGroupAttempt> {
    const { podGroup, members, cache, schedulePod, unreserveAndForget } = this.#options;
    let attempt: PodGroupAttempt = { scheduled: [], failed: [], scheduledCount: 0 };
    for (const allowedNodes of podGroup.topologyDomains?.(cache) ?? [undefined]) {
      const scheduled: ScheduledPod[] = [];
      const failed: FailedAttempt[] = [];
      for (const member of members) {
        const result = await schedulePod(member, { dryRun, ...(allowedNodes !== undefined && { allowedNodes }) });
        if ('failure' in result) failed.push(result);
        else scheduled.push(result);
      }
      attempt = { scheduled, failed, scheduledCount: this.#countScheduledMembers() };
      const enough = attempt.scheduledCount >= podGroup.minCount;
      if (dryRun || !enough) for (const member of scheduled.toReversed()) unreserveAndForget(member);
      if (enough || members.length === 0) break;
    }
    return attempt;
  }

  async #runPostFilterPlugins(): Promise<PodGroupPostFilterResult | undefined> {
    const { podGroup, members, cache } = this.#options;
    const detachedPods = new Set<string>();
    const restoreNominations = this.#saveNominations();
    const dryRun = this.#newDryRun(detachedPods);
    try {
      for (const plugin of members[0]?.profile.framework.pluginsAt('postFilter') ?? []) {
        const result = await plugin.podGroupPostFilter?.(podGroup, dryRun);
        if (result !== undefined) return result;
      }
      return undefined;
    } finally {
      for (const key of detachedPods) cache.reattachPod(key);
      restoreNominations();
    }
  }

  /** Returns a dry run that records in `detachedPods` the keys of the pods that it has removed from the cache. */
  #newDryRun(detachedPods: Set<string>): PodGroupDryRun {
    const { podGroup, members, cache, nominator } = this.#options;
    return {
      snapshot: cache,
      members: members.map(({ podInfo }) => podInfo),
      removePod: (pod) => {
        detachedPods.add(pod.key);
        cache.detachPod(pod);
      },
      restorePod: ({ key }) => {
        detachedPods.delete(key);
        cache.reattachPod(key);
      },
      nominatedNodeName: ({ key }) => nominator.nominatedNodeName(key),
      scheduleMembers: async () => {
        // members must not block each other through their own nominations
        for (const { podInfo } of members) nominator.deleteNominatedPod(podInfo.key);
        const { scheduled, scheduledCount } = await this.#scheduleMembers(true);
        if (scheduledCount < podGroup.minCount) return undefined;
        return new Map(scheduled.map(({ podInfo, node }) => [podInfo.key, node]));
      },
    };
  }
}

/** Returns a failure for every member. A member that fits a node waits for the same cluster events as the members that do not. */
function failAllMembers(
  { minCount }: PodGroupInfo,
  { scheduled, failed, scheduledCount }: PodGroupAttempt,
  postFilterResult: PodGroupPostFilterResult | undefined,
): readonly FailedAttempt[] {
  const unschedulablePlugins = new Set(failed.flatMap(({ failure }) => [...failure.unschedulablePlugins]));
  if (postFilterResult !== undefined) unschedulablePlugins.add('DefaultPreemption');
  const [first] = failed;
  const suffix = postFilterResult !== undefined && 'reasons' in postFilterResult ? ` ${postFilterResult.reasons.join(', ')}` : '';
  const summary = `${scheduledCount} of at least ${minCount} pods of the group can be scheduled`;
  const message = `${summary}${first === undefined ? '' : `: ${first.failure.message}`}${suffix}`;
  const nominationOf = (key: string) => {
    const node = postFilterResult?.nominatedNodeNames?.get(key);
    return node === undefined ? {} : { nominatedNodeName: node };
  };
  return [
    ...failed.map((attempt): FailedAttempt => {
      const { failure, podInfo } = attempt;
      return {
        ...attempt,
        failure: { ...failure, unschedulablePlugins, message: `${failure.message}${suffix}`, ...nominationOf(podInfo.key) },
      };
    }),
    ...scheduled.map(
      ({ podInfo, profile, spanContext }): FailedAttempt => ({
        podInfo,
        profile,
        spanContext,
        failure: { unschedulablePlugins, reason: 'Unschedulable', message, ...nominationOf(podInfo.key) },
      }),
    ),
  ];
}
