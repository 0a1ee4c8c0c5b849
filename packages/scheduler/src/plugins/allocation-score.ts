import type { Amounts, SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';

const resource = z.strictObject({
  name: z.string().min(1),
  // not given and 0 are the same to Kubernetes
  weight: z
    .number()
    .int()
    .min(0)
    .max(100)
    .default(1)
    .transform((weight) => weight || 1),
});
export const resourceWeights = z
  .array(resource)
  .min(1)
  .default([
    { name: 'cpu', weight: 1 },
    { name: 'memory', weight: 1 },
  ]);

const shapePoint = z.strictObject({ utilization: z.number().int().min(0).max(100), score: z.number().int().min(0).max(10) });
export const strategyArgs = z
  .strictObject({
    type: z.enum(['LeastAllocated', 'MostAllocated', 'RequestedToCapacityRatio']).default('LeastAllocated'),
    resources: resourceWeights,
    requestedToCapacityRatio: z.strictObject({ shape: z.array(shapePoint).min(1) }).optional(),
  })
  .superRefine(({ type, requestedToCapacityRatio }, context) => {
    const complain = (path: (string | number)[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (type !== 'RequestedToCapacityRatio') return;
    if (requestedToCapacityRatio === undefined) complain(['requestedToCapacityRatio', 'shape'], 'at least one point has to be given');
    for (const [index, { utilization }] of (requestedToCapacityRatio?.shape ?? []).entries())
      if (index > 0 && utilization <= (requestedToCapacityRatio?.shape[index - 1]?.utilization ?? 0))
        complain(['requestedToCapacityRatio', 'shape', index, 'utilization'], 'utilization values have to be sorted in increasing order');
  })
  .prefault({});
type Strategy = z.output<typeof strategyArgs>;

/** Extended resources and the like: a pod that asks for none of one is not scored by it. */
export const isScalar = (name: string): boolean => name !== 'cpu' && name !== 'memory' && name !== 'ephemeral-storage';

export function amountOf(amounts: Amounts, name: string): number {
  if (name === 'cpu') return amounts.milliCpu;
  if (name === 'memory') return amounts.memory;
  if (name === 'ephemeral-storage') return amounts.ephemeralStorage;
  return amounts.scalar.get(name) ?? 0;
}

type Rate = (used: number, has: number) => number;
const least: Rate = (used, has) => (used > has ? 0 : Math.floor(((has - used) * 100) / has));
const most: Rate = (used, has) => Math.floor((Math.min(used, has) * 100) / has);

/** Straight lines between the points, level outside of them. */
function along(shape: readonly { readonly utilization: number; readonly score: number }[]): Rate {
  const points = shape.map(({ utilization, score }) => ({ at: utilization, score: score * 10 }));
  return (used, has) => {
    const at = used > has ? 100 : Math.floor((used * 100) / has);
    const next = points.findIndex((point) => at <= point.at);
    const upper = points[next];
    const lower = points[next - 1];
    if (upper === undefined) return points.at(-1)?.score ?? 0;
    if (lower === undefined) return upper.score;
    return lower.score + Math.trunc(((upper.score - lower.score) * (at - lower.at)) / (upper.at - lower.at));
  };
}

/** Scores a node by how much of it would be asked for, weighed over the resources that it has. */
export function strategyOf({ type, resources, requestedToCapacityRatio }: Strategy): NonNullable<SchedulingPlugin['score']> {
  const byShape = type === 'RequestedToCapacityRatio';
  const rate = byShape ? along(requestedToCapacityRatio?.shape ?? []) : type === 'MostAllocated' ? most : least;
  return (_state, { nonZeroRequests }, { allocatable, nonZeroRequested }) => {
    let sum = 0;
    let weights = 0;
    for (const { name, weight } of resources) {
      const has = amountOf(allocatable, name);
      const wanted = amountOf(nonZeroRequests, name);
      if (has === 0 || (wanted === 0 && isScalar(name))) continue;
      const score = rate(amountOf(nonZeroRequested, name) + wanted, has);
      if (byShape && score === 0) continue;
      sum += weight * score;
      weights += weight;
    }
    if (weights === 0) return 0;
    return byShape ? Math.round(sum / weights) : Math.floor(sum / weights);
  };
}
