import type { Amounts, NodeInfo, SchedulingPlugin } from '@oarlock/spi/scheduling';
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

/** How many devices a node has for an extended resource, and how many of those are given away (KEP-5004); undefined: devices do not stand for it. */
export type DeviceCount = (resource: string, node: NodeInfo) => { readonly has: number; readonly used: number } | undefined;

/** What a node has of a resource, and what of it is used. Devices count where no device plugin says what there is. */
export function shareOf(
  node: NodeInfo,
  name: string,
  wanted: number,
  requested: Amounts,
  devices: DeviceCount,
): { readonly has: number; readonly used: number } | undefined {
  // a pod that asks for none of it is not scored by it
  if (wanted === 0 && isScalar(name)) return undefined;
  const has = amountOf(node.allocatable, name);
  if (has > 0) return { has, used: amountOf(requested, name) };
  const counted = isScalar(name) ? devices(name, node) : undefined;
  return counted === undefined || counted.has === 0 ? undefined : counted;
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
export function strategyOf(
  { type, resources, requestedToCapacityRatio }: Strategy,
  devices: DeviceCount,
): NonNullable<SchedulingPlugin['score']> {
  const byShape = type === 'RequestedToCapacityRatio';
  const rate = byShape ? along(requestedToCapacityRatio?.shape ?? []) : type === 'MostAllocated' ? most : least;
  return (_state, { nonZeroRequests }, node) => {
    let sum = 0;
    let weights = 0;
    for (const { name, weight } of resources) {
      const wanted = amountOf(nonZeroRequests, name);
      const share = shareOf(node, name, wanted, node.nonZeroRequested, devices);
      if (share === undefined) continue;
      const score = rate(share.used + wanted, share.has);
      if (byShape && score === 0) continue;
      sum += weight * score;
      weights += weight;
    }
    if (weights === 0) return 0;
    return byShape ? Math.round(sum / weights) : Math.floor(sum / weights);
  };
}
