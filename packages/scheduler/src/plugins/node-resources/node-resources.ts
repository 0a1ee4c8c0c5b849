import { deviceClasses } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { Client, Informers } from '@oarlock/spi/client';
import {
  Scheduling,
  skip,
  success,
  unschedulableAndUnresolvable,
  unschedulable,
  type Resources,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { allocatableResources, newPodInfo, ResourceTotals } from '../../pod-info/pod-info.ts';
import { withConfigurableArgs } from '../helper/plugin-args.ts';
import { isResourceServed } from '../../framework/resource-served.ts';
import { DRAManager } from '../dynamic-resources/dra-manager.ts';
import type { ExtendedResourceCache } from '../dynamic-resources/extended-resources.ts';
import { resourceValue, resourceWeights, allocationOf, scoringStrategyArgs, resourceScorer, type DeviceCount } from './scoring-strategy.ts';

const hasCapacity = (wanted: number, has: number, used: number) => wanted === 0 || wanted <= has - used;

/**
 * Returns upstream's reasons for insufficient resources, or undefined if the pod fits. `never` is true if a request exceeds the allocatable amount.
 */
function insufficientResources(
  { requests }: PodInfo,
  node: Pick<NodeInfo, 'allocatable' | 'requested' | 'pods'>,
  isIgnored: (name: string) => boolean,
  extended: ExtendedResourceCache | undefined,
): { readonly reasons: readonly string[]; readonly never: boolean } | undefined {
  const { allocatable, requested, pods } = node;
  if (
    pods.length + 1 <= allocatable.pods &&
    hasCapacity(requests.milliCpu, allocatable.milliCpu, requested.milliCpu) &&
    hasCapacity(requests.memory, allocatable.memory, requested.memory) &&
    hasCapacity(requests.ephemeralStorage, allocatable.ephemeralStorage, requested.ephemeralStorage) &&
    requests.scalar.size === 0
  )
    return undefined; // fast path
  let reasons: string[] | undefined;
  let never = false;
  const check = (name: string, wanted: number, has: number, used: number) => {
    if (hasCapacity(wanted, has, used)) return;
    (reasons ??= []).push(`Insufficient ${name}`);
    never ||= wanted > has;
  };
  if (pods.length + 1 > allocatable.pods) (reasons ??= []).push('Too many pods');
  check('cpu', requests.milliCpu, allocatable.milliCpu, requested.milliCpu);
  check('memory', requests.memory, allocatable.memory, requested.memory);
  check('ephemeral-storage', requests.ephemeralStorage, allocatable.ephemeralStorage, requested.ephemeralStorage);
  // DynamicResources allocates extended resources that are backed by devices
  for (const [name, wanted] of requests.scalar)
    if (!isIgnored(name) && !extended?.isDelegated(name, node))
      check(name, wanted, allocatable.scalar.get(name) ?? 0, requested.scalar.get(name) ?? 0);
  return reasons && { reasons, never };
}

const args = z.strictObject({
  /** Extended resources that the plugin ignores, because an extender manages them. */
  ignoredResources: z.array(z.string().min(1)).default([]),
  /** Prefixes of extended resources that the plugin ignores, such as `example.com`. */
  ignoredResourceGroups: z.array(z.string().regex(/^[^/]+$/, 'a prefix without /')).default([]),
  scoringStrategy: scoringStrategyArgs,
});

const requestsOf = (pod: Pod): Resources => newPodInfo(pod).requests;

/** Returns true if the available amount of a resource that the pod requests has increased. */
function freesResourcesFor(pod: Pod, before: Resources, after: Resources): boolean {
  const requests = requestsOf(pod);
  if (after.pods > before.pods) return true;
  return ['cpu', 'memory', 'ephemeral-storage', ...requests.scalar.keys()].some(
    (name) => resourceValue(requests, name) > 0 && resourceValue(after, name) > resourceValue(before, name),
  );
}

/** Rejects nodes with insufficient resources; scores nodes by the configured strategy, by default the least allocated best. */
export const nodeResourcesFit = Scheduling.plugin({
  id: 'scheduling-node-resources-fit',
  config: args,
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }, { clock }): SchedulingPlugin {
    /** The devices of the cluster; undefined if the API server does not serve DeviceClasses. */
    let devices: DRAManager | undefined;
    const countOn: DeviceCount = (resource, { node }) => devices?.countDevices(resource, node);
    return withConfigurableArgs(args, config, ({ scoringStrategy, ignoredResources, ignoredResourceGroups }) => {
      const ignored = new Set(ignoredResources);
      const groups = new Set(ignoredResourceGroups);
      const isIgnored = (name: string) => ignored.has(name) || groups.has(name.slice(0, Math.max(0, name.indexOf('/'))));
      return {
        name: 'NodeResourcesFit',
        eventsToRegister: [
          {
            kind: 'AssignedPod',
            actions: ['deleted', 'updated'],
            // an updated pod helps only if its requests have decreased
            queueingHint: (pod, old, now) =>
              now === undefined || freesResourcesFor(pod, requestsOf(now as Pod), requestsOf(old as Pod)) ? 'queue' : 'skip',
          },
          {
            kind: 'Node',
            actions: ['added', 'updated'],
            queueingHint(pod, old, now) {
              const after = allocatableResources((now as Node).status?.allocatable);
              const before = old === undefined ? undefined : allocatableResources((old as Node).status?.allocatable);
              if (before !== undefined && !freesResourcesFor(pod, before, after)) return 'skip';
              const empty = { allocatable: after, requested: new ResourceTotals(), pods: [] };
              return insufficientResources(newPodInfo(pod), empty, isIgnored, devices?.extendedResources) === undefined ? 'queue' : 'skip';
            },
          },
          { kind: 'DeviceClass', actions: ['added', 'updated'] },
        ],
        async whenSynced(signal) {
          devices ??= await devicesIfServed({ client, informers, clock, signal });
          await devices?.whenSynced(signal);
        },
        filter(_state, pod, node) {
          const insufficient = insufficientResources(pod, node, isIgnored, devices?.extendedResources);
          return insufficient === undefined
            ? success
            : insufficient.never
              ? unschedulableAndUnresolvable(...insufficient.reasons)
              : unschedulable(...insufficient.reasons);
        },
        score: resourceScorer(scoringStrategy, countOn),
      };
    });
  },
});

/** Returns the devices of the cluster, or undefined if the API server does not serve DeviceClasses. */
async function devicesIfServed({
  client,
  informers,
  clock,
  signal,
}: Parameters<typeof isResourceServed>[0] & { readonly informers: Informers }): Promise<DRAManager | undefined> {
  return (await isResourceServed({ client, clock, signal }, deviceClasses)) ? DRAManager.shared(informers, client, clock) : undefined;
}

const balanceArgs = z.strictObject({ resources: resourceWeights });

/** Prefers nodes on which the pod makes the use of the resources more even, or the least uneven. */
export const nodeResourcesBalancedAllocation = Scheduling.plugin({
  id: 'scheduling-node-resources-balanced-allocation',
  config: balanceArgs,
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }, { clock }): SchedulingPlugin {
    let devices: DRAManager | undefined;
    const countOn: DeviceCount = (resource, { node }) => devices?.countDevices(resource, node);
    return withConfigurableArgs(balanceArgs, config, ({ resources }) => {
      const names = resources.map(({ name }) => name);
      // reused for each node
      const [before, after] = [new Float64Array(names.length), new Float64Array(names.length)];
      return {
        name: 'NodeResourcesBalancedAllocation',
        // pods that request none of the resources do not change the balance
        preScore: (_state, { requests }) => (names.every((name) => resourceValue(requests, name) === 0) ? skip : success),
        async whenSynced(signal) {
          devices ??= await devicesIfServed({ client, informers, clock, signal });
          await devices?.whenSynced(signal);
        },
        score(_state, { requests }, node) {
          let count = 0;
          for (const name of names) {
            const requested = resourceValue(requests, name);
            const share = allocationOf(node, name, { wanted: requested, requested: node.requested, devices: countOn });
            if (share === undefined) continue;
            before[count] = Math.min(1, share.used / share.has);
            after[count++] = Math.min(1, (share.used + requested) / share.has);
          }
          return balanceScore(standardDeviation(before, count), standardDeviation(after, count));
        },
      };
    });
  },
});

const balanceOf = (deviation: number): number => Math.floor((1 - deviation) * 100);
/**
 * Returns the score of a change of the standard deviation of the used fractions: 75 if it stays, 100 from the largest deviation, which is 0.5, to none,
 * and 50 in the opposite direction (since Kubernetes 1.36). As upstream, rounds down the balance before and after the change, and half the difference.
 */
const balanceScore = (before: number, after: number): number => 50 + Math.trunc((50 + balanceOf(after) - balanceOf(before)) / 2);

/** Returns the standard deviation of the first `count` values. */
function standardDeviation(values: Float64Array, count: number): number {
  if (count < 2) return 0;
  if (count === 2) return Math.abs(((values[0] ?? 0) - (values[1] ?? 0)) / 2);
  let total = 0;
  for (let index = 0; index < count; index++) total += values[index] ?? 0;
  const mean = total / count;
  let squares = 0;
  for (let index = 0; index < count; index++) squares += ((values[index] ?? 0) - mean) * ((values[index] ?? 0) - mean);
  return Math.sqrt(squares / count);
}
