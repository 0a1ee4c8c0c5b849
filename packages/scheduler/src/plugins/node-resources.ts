import { deviceClasses } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { Client, Informers } from '@oarlock/spi/client';
import {
  Scheduling,
  skip,
  success,
  unresolvable,
  unschedulable,
  type Amounts,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { allocatableOf, podInfo, Tally } from '../amounts.ts';
import { configurable } from '../plugin-args.ts';
import { isServed } from '../served.ts';
import { Devices } from './devices/devices.ts';
import type { ExtendedResources } from './devices/extended-resources.ts';
import { amountOf, resourceWeights, shareOf, strategyArgs, strategyOf, type DeviceCount } from './allocation-score.ts';

const fits = (wanted: number, has: number, used: number) => wanted === 0 || wanted <= has - used;

/** What does not fit, in upstream's words; and whether it could ever fit on this node. */
function lacking(
  { requests }: PodInfo,
  node: Pick<NodeInfo, 'allocatable' | 'requested' | 'pods'>,
  isIgnored: (name: string) => boolean,
  extended: ExtendedResources | undefined,
): { readonly reasons: readonly string[]; readonly never: boolean } | undefined {
  const { allocatable, requested, pods } = node;
  if (
    pods.length + 1 <= allocatable.pods &&
    fits(requests.milliCpu, allocatable.milliCpu, requested.milliCpu) &&
    fits(requests.memory, allocatable.memory, requested.memory) &&
    fits(requests.ephemeralStorage, allocatable.ephemeralStorage, requested.ephemeralStorage) &&
    requests.scalar.size === 0
  )
    return undefined; // nearly always
  let reasons: string[] | undefined;
  let never = false;
  const check = (name: string, wanted: number, has: number, used: number) => {
    if (fits(wanted, has, used)) return;
    (reasons ??= []).push(`Insufficient ${name}`);
    never ||= wanted > has;
  };
  if (pods.length + 1 > allocatable.pods) (reasons ??= []).push('Too many pods');
  check('cpu', requests.milliCpu, allocatable.milliCpu, requested.milliCpu);
  check('memory', requests.memory, allocatable.memory, requested.memory);
  check('ephemeral-storage', requests.ephemeralStorage, allocatable.ephemeralStorage, requested.ephemeralStorage);
  // what devices stand for is for DynamicResources
  for (const [name, wanted] of requests.scalar)
    if (!isIgnored(name) && !extended?.isDelegated(name, node))
      check(name, wanted, allocatable.scalar.get(name) ?? 0, requested.scalar.get(name) ?? 0);
  return reasons && { reasons, never };
}

const args = z.strictObject({
  /** Extended resources that are not looked at: an extender does. */
  ignoredResources: z.array(z.string().min(1)).default([]),
  /** Their prefixes, such as `example.com`. */
  ignoredResourceGroups: z.array(z.string().regex(/^[^/]+$/, 'a prefix without /')).default([]),
  scoringStrategy: strategyArgs,
});

const requestsOf = (pod: Pod): Amounts => podInfo(pod).requests;

/** Whether there is more than before of anything that a pod asks for. */
function isMoreFor(pod: Pod, before: Amounts, after: Amounts): boolean {
  const wanted = requestsOf(pod);
  if (after.pods > before.pods) return true;
  return ['cpu', 'memory', 'ephemeral-storage', ...wanted.scalar.keys()].some(
    (name) => amountOf(wanted, name) > 0 && amountOf(after, name) > amountOf(before, name),
  );
}

/** A node has what the pod asks for; the emptier it is, the better, or as the strategy says. */
export const nodeResourcesFit = Scheduling.plugin({
  id: 'scheduling-node-resources-fit',
  config: args,
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }, { clock }): SchedulingPlugin {
    /** Undefined where the server knows of no devices. */
    let devices: Devices | undefined;
    const countOn: DeviceCount = (resource, { node }) => devices?.countOn(resource, node);
    return configurable(args, config, ({ scoringStrategy, ignoredResources, ignoredResourceGroups }) => {
      const ignored = new Set(ignoredResources);
      const groups = new Set(ignoredResourceGroups);
      const isIgnored = (name: string) => ignored.has(name) || groups.has(name.slice(0, Math.max(0, name.indexOf('/'))));
      return {
        name: 'NodeResourcesFit',
        requeueOn: [
          {
            kind: 'AssignedPod',
            on: ['deleted', 'updated'],
            // of those that stay only what they hold no more helps
            hint: (pod, old, now) =>
              now === undefined || isMoreFor(pod, requestsOf(now as Pod), requestsOf(old as Pod)) ? 'queue' : 'skip',
          },
          {
            kind: 'Node',
            on: ['added', 'updated'],
            hint(pod, old, now) {
              const after = allocatableOf((now as Node).status?.allocatable);
              const before = old === undefined ? undefined : allocatableOf((old as Node).status?.allocatable);
              if (before !== undefined && !isMoreFor(pod, before, after)) return 'skip';
              const empty = { allocatable: after, requested: new Tally(), pods: [] };
              return lacking(podInfo(pod), empty, isIgnored, devices?.extended) === undefined ? 'queue' : 'skip';
            },
          },
          { kind: 'DeviceClass', on: ['added', 'updated'] },
        ],
        async ready(signal) {
          devices ??= await served({ client, informers, clock, signal });
          await devices?.ready(signal);
        },
        filter(_state, pod, node) {
          const short = lacking(pod, node, isIgnored, devices?.extended);
          return short === undefined ? success : short.never ? unresolvable(...short.reasons) : unschedulable(...short.reasons);
        },
        score: strategyOf(scoringStrategy, countOn),
      };
    });
  },
});

/** The devices of the cluster; undefined where the server knows of none. */
async function served({
  client,
  informers,
  clock,
  signal,
}: Parameters<typeof isServed>[0] & { readonly informers: Informers }): Promise<Devices | undefined> {
  return (await isServed({ client, clock, signal }, deviceClasses)) ? Devices.of(informers, client, clock) : undefined;
}

const balanceArgs = z.strictObject({ resources: resourceWeights });

/** Prefers nodes whose resources are used to the same degree: what is left over then stays usable. */
export const nodeResourcesBalancedAllocation = Scheduling.plugin({
  id: 'scheduling-node-resources-balanced-allocation',
  config: balanceArgs,
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }, { clock }): SchedulingPlugin {
    let devices: Devices | undefined;
    const countOn: DeviceCount = (resource, { node }) => devices?.countOn(resource, node);
    return configurable(balanceArgs, config, ({ resources }) => {
      const names = resources.map(({ name }) => name);
      const parts = new Float64Array(names.length); // of one node at a time
      return {
        name: 'NodeResourcesBalancedAllocation',
        // pods that ask for none of them change no balance
        preScore: (_state, { requests }) => (names.every((name) => amountOf(requests, name) === 0) ? skip : success),
        async ready(signal) {
          devices ??= await served({ client, informers, clock, signal });
          await devices?.ready(signal);
        },
        score(_state, { requests }, node) {
          let count = 0;
          for (const name of names) {
            const wanted = amountOf(requests, name);
            const share = shareOf(node, name, wanted, node.requested, countOn);
            if (share !== undefined) parts[count++] = Math.min(1, (share.used + wanted) / share.has);
          }
          return Math.floor((1 - deviation(parts, count)) * 100);
        },
      };
    });
  },
});

/** Of the first `count`. */
function deviation(parts: Float64Array, count: number): number {
  if (count < 2) return 0;
  if (count === 2) return Math.abs((parts[0] ?? 0) - (parts[1] ?? 0)) / 2;
  let mean = 0;
  for (let index = 0; index < count; index++) mean += (parts[index] ?? 0) / count;
  let squares = 0;
  for (let index = 0; index < count; index++) squares += ((parts[index] ?? 0) - mean) ** 2;
  return Math.sqrt(squares / count);
}
