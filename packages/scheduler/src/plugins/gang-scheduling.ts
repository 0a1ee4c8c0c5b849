import { objectKey } from '@oarlock/api/object';
import { podGroupsV1alpha2, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodGroup } from '@oarlock/api/types/scheduling-v1alpha2';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import { pending, Scheduling, success, type PodTeam, type SchedulingPlugin, type Snapshot } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { same } from '../pod-changes.ts';
import { isServed } from '../served.ts';

const podsOfGroup = 'pods-of-scheduling-group';
const groupKeyOf = ({ metadata, spec }: Pod): string | undefined => {
  const name = spec?.schedulingGroup?.podGroupName;
  return name === undefined ? undefined : `${metadata?.namespace}/${name}`;
};
const indexed = (pod: Pod) => {
  const key = groupKeyOf(pod);
  return key === undefined ? [] : [key];
};
const isEnded = ({ status }: Pod) => status?.phase === 'Succeeded' || status?.phase === 'Failed';

/** Sets of nodes that share the value of a label, those with the most pods of the group first. */
function domainsBy(key: string, has: (pod: Pod) => boolean, { nodes }: Snapshot): readonly ReadonlySet<string>[] {
  const domains = new Map<string, { readonly names: Set<string>; members: number }>();
  for (const info of nodes) {
    const { name, pods: here } = info;
    const value = info.label(key);
    if (value === undefined) continue;
    const domain = domains.get(value) ?? { names: new Set(), members: 0 };
    domains.set(value, domain);
    domain.names.add(name);
    for (const { pod } of here) if (has(pod)) domain.members += 1;
  }
  const found = [...domains.values()].sort((a, b) => b.members - a.members || b.names.size - a.names.size);
  // whoever has members already keeps the others with them
  return (found.some(({ members }) => members > 0) ? found.filter(({ members }) => members > 0) : found).map(({ names }) => names);
}

/** Pods of a PodGroup with the gang policy get their nodes together or not at all (KEP-4671). Asleep where the server has no PodGroups. */
export const gangScheduling = Scheduling.plugin({
  id: 'scheduling-gang-scheduling',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }, { clock, log }): SchedulingPlugin {
    let groups: Informer<PodGroup> | undefined;
    const allPods = informers.of(pods);
    allPods.addIndex(podsOfGroup, indexed);

    const settle = async (group: PodGroup, scheduled: boolean, message: string): Promise<void> => {
      const { namespace = '', name = '' } = group.metadata ?? {};
      const old = group.status?.conditions?.find(({ type }) => type === 'PodGroupScheduled');
      const status = scheduled ? 'True' : 'False';
      if (old?.status === status && old.message === message) return;
      const condition = {
        type: 'PodGroupScheduled',
        status,
        reason: scheduled ? 'Scheduled' : 'Unschedulable',
        message,
        lastTransitionTime: old?.status === status ? old.lastTransitionTime : formatTime(clock.now()),
      };
      try {
        await client.patch(
          podGroupsV1alpha2,
          { namespace, name },
          'merge',
          {
            metadata: { uid: group.metadata?.uid },
            status: { conditions: [...(group.status?.conditions ?? []).filter(({ type }) => type !== condition.type), condition] },
          },
          { subresource: 'status' },
        );
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict'))
          log.warn({ podGroup: objectKey(group), err: error }, 'the status of a pod group could not be written');
      }
    };

    const preemptedWith = (pod: Pod) => {
      const key = groupKeyOf(pod);
      const group = key === undefined ? undefined : groups?.get(key);
      if (key === undefined || group === undefined) return undefined;
      return { key, priority: group.spec.priority ?? 0, together: group.spec.disruptionMode === 'PodGroup' };
    };

    return {
      name: 'GangScheduling',
      requeueOn: [
        {
          kind: 'PodGroup',
          resource: podGroupsV1alpha2,
          on: ['added', 'updated'],
          hint: (pod, old, now) =>
            groupKeyOf(pod) === objectKey(now as PodGroup) && !same((old as PodGroup | undefined)?.spec, (now as PodGroup).spec)
              ? 'queue'
              : 'skip',
        },
        {
          kind: 'UnscheduledPod',
          on: ['added'],
          hint: (pod, _old, now) => (groupKeyOf(pod) === groupKeyOf(now as Pod) ? 'queue' : 'skip'),
        },
        { kind: 'AssignedPod', on: ['added'], hint: (pod, _old, now) => (groupKeyOf(pod) === groupKeyOf(now as Pod) ? 'queue' : 'skip') },
      ],
      async ready(signal) {
        if (groups === undefined && (await isServed({ client, clock, signal }, podGroupsV1alpha2)))
          groups = informers.of(podGroupsV1alpha2);
        await Promise.all([groups?.whenSynced(signal), allPods.whenSynced(signal)]);
      },
      preEnqueue(pod) {
        const key = groupKeyOf(pod);
        if (groups === undefined || key === undefined) return success;
        const group = groups.get(key);
        if (group === undefined)
          return pending(
            `waiting for pods's pod group ${JSON.stringify(pod.spec?.schedulingGroup?.podGroupName)} to appear in scheduling queue`,
          );
        const { minCount = 0 } = group.spec.schedulingPolicy.gang ?? {};
        const known = allPods.byIndex(podsOfGroup, key).filter((each) => !isEnded(each)).length;
        return known < minCount ? pending('waiting for minCount pods from a gang to appear in scheduling queue') : success;
      },
      team(pod): PodTeam | undefined {
        const key = groupKeyOf(pod);
        const group = key === undefined ? undefined : groups?.get(key);
        const topology = group?.spec.schedulingConstraints?.topology?.[0]?.key;
        if (group === undefined || (group.spec.schedulingPolicy.gang === undefined && topology === undefined)) return undefined;
        const has = (other: Pod) => groupKeyOf(other) === key;
        const atLeast = group.spec.schedulingPolicy.gang?.minCount ?? 1;
        return {
          key: `${key}`,
          atLeast,
          has,
          ...(topology !== undefined && { domains: (snapshot: Snapshot) => domainsBy(topology, has, snapshot) }),
          preemption: { object: group, priority: group.spec.priority ?? 0, teamOf: preemptedWith },
          settled: (placed, message) => void settle(groups?.get(`${key}`) ?? group, placed >= atLeast, message),
        };
      },
    };
  },
});
