import { objectKey } from '@oarlock/api/object';
import { podGroupsV1alpha2, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodGroup } from '@oarlock/api/types/scheduling-v1alpha2';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import {
  pending,
  Scheduling,
  success,
  type ClusterEventWithHint,
  type PodGroupInfo,
  type PodGroupPreemption,
  type SchedulingPlugin,
  type Snapshot,
  type Status,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { isEqual } from '../pod-info/pod-changes.ts';
import { isResourceServed } from '../framework/resource-served.ts';

const podGroupIndex = 'pods-of-scheduling-group';
const groupKeyOf = ({ metadata, spec }: Pod): string | undefined => {
  const name = spec?.schedulingGroup?.podGroupName;
  return name === undefined ? undefined : `${metadata?.namespace}/${name}`;
};
const podGroupIndexKeys = (pod: Pod) => {
  const key = groupKeyOf(pod);
  return key === undefined ? [] : [key];
};
const hasEnded = ({ status }: Pod) => status?.phase === 'Succeeded' || status?.phase === 'Failed';

const sameGroupHint: NonNullable<ClusterEventWithHint['queueingHint']> = (pod, _old, now) =>
  groupKeyOf(pod) === groupKeyOf(now as Pod) ? 'queue' : 'skip';

const eventsToRegister: readonly ClusterEventWithHint[] = [
  {
    kind: 'PodGroup',
    resource: podGroupsV1alpha2,
    actions: ['added', 'updated'],
    queueingHint: (pod, old, now) =>
      groupKeyOf(pod) === objectKey(now as PodGroup) && !isEqual((old as PodGroup | undefined)?.spec, (now as PodGroup).spec)
        ? 'queue'
        : 'skip',
  },
  { kind: 'UnscheduledPod', actions: ['added'], queueingHint: sameGroupHint },
  { kind: 'AssignedPod', actions: ['added'], queueingHint: sameGroupHint },
];

/** Returns the topology domains of a node label as sets of node names. Domains with the most members of the group are first. */
function topologyDomainsBy(key: string, isMember: (pod: Pod) => boolean, { nodes }: Snapshot): readonly ReadonlySet<string>[] {
  const byValue = new Map<string, { readonly names: Set<string>; members: number }>();
  for (const node of nodes) {
    const value = node.label(key);
    if (value === undefined) continue;
    const domain = byValue.get(value) ?? { names: new Set(), members: 0 };
    byValue.set(value, domain);
    domain.names.add(node.name);
    for (const { pod } of node.pods) if (isMember(pod)) domain.members += 1;
  }
  const domains = [...byValue.values()].sort((a, b) => b.members - a.members || b.names.size - a.names.size);
  // if a domain has members already, the other members must join them
  const occupied = domains.filter(({ members }) => members > 0);
  return (occupied.length > 0 ? occupied : domains).map(({ names }) => names);
}

interface GangSchedulingOptions {
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The plugin GangScheduling: schedules all pods of a PodGroup with the gang policy or none (KEP-4671). Does nothing if the API server does not serve
 * PodGroups.
 */
class GangScheduling {
  readonly #options: GangSchedulingOptions;
  readonly #pods: Informer<Pod>;
  #groups: Informer<PodGroup> | undefined;

  constructor(options: GangSchedulingOptions) {
    this.#options = options;
    this.#pods = options.informers.forResource(pods);
    this.#pods.addIndexer(podGroupIndex, podGroupIndexKeys);
  }

  plugin(): SchedulingPlugin {
    return {
      name: 'GangScheduling',
      eventsToRegister,
      whenSynced: (signal) => this.#whenSynced(signal),
      preEnqueue: (pod) => this.#preEnqueue(pod),
      podGroup: (pod) => this.#podGroup(pod),
    };
  }

  async #whenSynced(signal: AbortSignal): Promise<void> {
    const { client, clock, informers } = this.#options;
    if (this.#groups === undefined && (await isResourceServed({ client, clock, signal }, podGroupsV1alpha2)))
      this.#groups = informers.forResource(podGroupsV1alpha2);
    await Promise.all([this.#groups?.whenSynced(signal), this.#pods.whenSynced(signal)]);
  }

  /** Gates a pod until its PodGroup and at least `minCount` pods of the PodGroup exist. */
  #preEnqueue(pod: Pod): Status {
    const key = groupKeyOf(pod);
    if (this.#groups === undefined || key === undefined) return success;
    const group = this.#groups.get(key);
    if (group === undefined)
      return pending(
        `waiting for pods's pod group ${JSON.stringify(pod.spec?.schedulingGroup?.podGroupName)} to appear in scheduling queue`,
      );
    const { minCount = 0 } = group.spec.schedulingPolicy.gang ?? {};
    const podCount = this.#pods.byIndex(podGroupIndex, key).filter((each) => !hasEnded(each)).length;
    return podCount < minCount ? pending('waiting for minCount pods from a gang to appear in scheduling queue') : success;
  }

  #podGroup(pod: Pod): PodGroupInfo | undefined {
    const key = groupKeyOf(pod);
    const group = key === undefined ? undefined : this.#groups?.get(key);
    if (key === undefined || group === undefined) return undefined;
    const topologyKey = group.spec.schedulingConstraints?.topology?.[0]?.key;
    if (group.spec.schedulingPolicy.gang === undefined && topologyKey === undefined) return undefined;
    const isMember = (other: Pod) => groupKeyOf(other) === key;
    const minCount = group.spec.schedulingPolicy.gang?.minCount ?? 1;
    return {
      key,
      minCount,
      has: isMember,
      ...(topologyKey !== undefined && { topologyDomains: (snapshot: Snapshot) => topologyDomainsBy(topologyKey, isMember, snapshot) }),
      preemption: { object: group, priority: group.spec.priority ?? 0, podGroupOf: (other) => this.#preemptionGroupOf(other) },
      reportAttempt: (scheduledCount, message) =>
        void this.#writeCondition(this.#groups?.get(key) ?? group, scheduledCount >= minCount, message),
    };
  }

  #preemptionGroupOf(pod: Pod): ReturnType<PodGroupPreemption['podGroupOf']> {
    const key = groupKeyOf(pod);
    const group = key === undefined ? undefined : this.#groups?.get(key);
    if (key === undefined || group === undefined) return undefined;
    return { key, priority: group.spec.priority ?? 0, preemptTogether: group.spec.disruptionMode === 'PodGroup' };
  }

  /** Writes the condition PodGroupScheduled if it has changed. Logs errors of the write. */
  async #writeCondition(group: PodGroup, isScheduled: boolean, message: string): Promise<void> {
    const { client, clock, log } = this.#options;
    const { namespace = '', name = '', uid } = group.metadata ?? {};
    const { conditions = [] } = group.status ?? {};
    const old = conditions.find(({ type }) => type === 'PodGroupScheduled');
    const status = isScheduled ? 'True' : 'False';
    if (old?.status === status && old.message === message) return;
    const condition = {
      type: 'PodGroupScheduled',
      status,
      reason: isScheduled ? 'Scheduled' : 'Unschedulable',
      message,
      lastTransitionTime: old?.status === status ? old.lastTransitionTime : formatTime(clock.now()),
    };
    const patch = { metadata: { uid }, status: { conditions: [...conditions.filter((each) => each !== old), condition] } };
    try {
      await client.patch(podGroupsV1alpha2, { namespace, name }, 'merge', patch, { subresource: 'status' });
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict'))
        log.warn({ podGroup: objectKey(group), err: error }, 'failed to write the status of a pod group');
    }
  }
}

export const gangScheduling = Scheduling.plugin({
  id: 'scheduling-gang-scheduling',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create: ({ client, informers }, { clock, log }): SchedulingPlugin => new GangScheduling({ client, informers, clock, log }).plugin(),
});
