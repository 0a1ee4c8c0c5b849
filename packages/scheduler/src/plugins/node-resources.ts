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

/** What does not fit, in upstream's words; and whether it could ever fit on this node. */
function lacking(
  { requests }: PodInfo,
  { allocatable, requested, pods }: NodeInfo,
): { readonly reasons: readonly string[]; readonly never: boolean } | undefined {
  let reasons: string[] | undefined;
  let never = false;
  const check = (name: string, wanted: number, has: number, used: number) => {
    if (wanted === 0 || wanted <= has - used) return;
    (reasons ??= []).push(`Insufficient ${name}`);
    never ||= wanted > has;
  };
  if (pods.length + 1 > allocatable.pods) (reasons ??= []).push('Too many pods');
  check('cpu', requests.milliCpu, allocatable.milliCpu, requested.milliCpu);
  check('memory', requests.memory, allocatable.memory, requested.memory);
  check('ephemeral-storage', requests.ephemeralStorage, allocatable.ephemeralStorage, requested.ephemeralStorage);
  for (const [name, wanted] of requests.scalar) check(name, wanted, allocatable.scalar.get(name) ?? 0, requested.scalar.get(name) ?? 0);
  return reasons && { reasons, never };
}

const strategies: Readonly<Record<'LeastAllocated' | 'MostAllocated', (used: number, has: number) => number>> = {
  LeastAllocated: (used, has) => (has === 0 || used > has ? 0 : Math.floor(((has - used) * 100) / has)),
  MostAllocated: (used, has) => (has === 0 ? 0 : Math.floor((Math.min(used, has) * 100) / has)),
};

const amountOf = (amounts: Amounts, name: string): number =>
  name === 'cpu'
    ? amounts.milliCpu
    : name === 'memory'
      ? amounts.memory
      : name === 'ephemeral-storage'
        ? amounts.ephemeralStorage
        : (amounts.scalar.get(name) ?? 0);

export const nodeResourcesFit = Scheduling.plugin({
  id: 'scheduling-node-resources-fit',
  config: z.strictObject({
    scoringStrategy: z
      .strictObject({
        type: z.enum(['LeastAllocated', 'MostAllocated']).default('LeastAllocated'),
        resources: z
          .array(z.strictObject({ name: z.string(), weight: z.number().int().min(1).max(100).default(1) }))
          .min(1)
          .default([
            { name: 'cpu', weight: 1 },
            { name: 'memory', weight: 1 },
          ]),
      })
      .prefault({}),
  }),
  create({ config: { scoringStrategy } }): SchedulingPlugin {
    const { resources } = scoringStrategy;
    const rate = strategies[scoringStrategy.type];
    return {
      name: 'NodeResourcesFit',
      requeueOn: [
        { kind: 'AssignedPod', on: ['deleted', 'updated'] },
        {
          kind: 'Node',
          on: ['added', 'updated'],
          hint: (_pod, old, now) =>
            (old as { status?: { allocatable?: unknown } } | undefined)?.status?.allocatable ===
              (now as { status?: { allocatable?: unknown } }).status?.allocatable && old !== undefined
              ? 'skip'
              : 'queue',
        },
      ],
      filter(_state, pod, node) {
        const short = lacking(pod, node);
        return short === undefined ? success : short.never ? unresolvable(...short.reasons) : unschedulable(...short.reasons);
      },
      score(_state, pod, node) {
        let sum = 0;
        let weights = 0;
        for (const { name, weight } of resources) {
          const has = amountOf(node.allocatable, name);
          // a node that does not have the resource at all does not count for it
          if (has === 0) continue;
          sum += weight * rate(amountOf(node.nonZeroRequested, name) + amountOf(pod.nonZeroRequests, name), has);
          weights += weight;
        }
        return weights === 0 ? 0 : Math.floor(sum / weights);
      },
    };
  },
});

/** Prefers nodes where CPU and memory are used to the same degree: what is left over then stays usable. */
export const nodeResourcesBalancedAllocation = Scheduling.plugin({
  id: 'scheduling-node-resources-balanced-allocation',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'NodeResourcesBalancedAllocation',
    preScore: (_state, { requests }) => (requests.milliCpu === 0 && requests.memory === 0 ? skip : success),
    score(_state, { requests }, { allocatable, requested }) {
      if (allocatable.milliCpu === 0 || allocatable.memory === 0) return 0;
      const cpu = Math.min(1, (requested.milliCpu + requests.milliCpu) / allocatable.milliCpu);
      const memory = Math.min(1, (requested.memory + requests.memory) / allocatable.memory);
      // of two values the standard deviation is half their distance
      return Math.floor((1 - Math.abs(cpu - memory) / 2) * 100);
    },
  }),
});
