import type { Resources, NodeInfo, SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';

const resource = z.strictObject({
  name: z.string().min(1),
  // as upstream, 0 means the default
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
export const scoringStrategyArgs = z
  .strictObject({
    type: z.enum(['LeastAllocated', 'MostAllocated', 'RequestedToCapacityRatio']).default('LeastAllocated'),
    resources: resourceWeights,
    requestedToCapacityRatio: z.strictObject({ shape: z.array(shapePoint).min(1) }).optional(),
  })
  .superRefine(({ type, requestedToCapacityRatio }, context) => {
    const addIssue = (path: (string | number)[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (type !== 'RequestedToCapacityRatio') return;
    if (requestedToCapacityRatio === undefined) addIssue(['requestedToCapacityRatio', 'shape'], 'must have at least one point');
    for (const [index, { utilization }] of (requestedToCapacityRatio?.shape ?? []).entries())
      if (index > 0 && utilization <= (requestedToCapacityRatio?.shape[index - 1]?.utilization ?? 0))
        addIssue(['requestedToCapacityRatio', 'shape', index, 'utilization'], 'utilization values must be sorted in increasing order');
  })
  .prefault({});
type ScoringStrategy = z.output<typeof scoringStrategyArgs>;

/** Returns true for extended resources and huge pages, which are scored only if the pod requests them. */
export const isScalar = (name: string): boolean => name !== 'cpu' && name !== 'memory' && name !== 'ephemeral-storage';

export function resourceValue(resources: Resources, name: string): number {
  if (name === 'cpu') return resources.milliCpu;
  if (name === 'memory') return resources.memory;
  if (name === 'ephemeral-storage') return resources.ephemeralStorage;
  return resources.scalar.get(name) ?? 0;
}

/**
 * A function that returns the number of devices of a node for an extended resource and the number of allocated devices (KEP-5004), or undefined if
 * no DeviceClass backs the resource.
 */
export type DeviceCount = (resource: string, node: NodeInfo) => { readonly has: number; readonly used: number } | undefined;

/**
 * Returns the capacity and the used amount of a resource on a node; devices are counted if no device plugin of the node provides the resource.
 * Returns undefined if the resource is not scored.
 */
export function allocationOf(
  node: NodeInfo,
  name: string,
  { wanted, requested, devices }: { readonly wanted: number; readonly requested: Resources; readonly devices: DeviceCount },
): { readonly has: number; readonly used: number } | undefined {
  if (wanted === 0 && isScalar(name)) return undefined;
  const has = resourceValue(node.allocatable, name);
  if (has > 0) return { has, used: resourceValue(requested, name) };
  const counted = isScalar(name) ? devices(name, node) : undefined;
  return counted === undefined || counted.has === 0 ? undefined : counted;
}

type ResourceScorer = (used: number, has: number) => number;
const leastAllocated: ResourceScorer = (used, has) => (used > has ? 0 : Math.floor(((has - used) * 100) / has));
const mostAllocated: ResourceScorer = (used, has) => Math.floor((Math.min(used, has) * 100) / has);

/** Returns a function that interpolates linearly between the points of `shape`, and is constant below the first and above the last point. */
function requestedToCapacityRatioScorer(shape: readonly { readonly utilization: number; readonly score: number }[]): ResourceScorer {
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

/** Returns a function that scores nodes by the weighted mean over the resources that they have. */
export function resourceScorer(
  { type, resources, requestedToCapacityRatio }: ScoringStrategy,
  devices: DeviceCount,
): NonNullable<SchedulingPlugin['score']> {
  const byShape = type === 'RequestedToCapacityRatio';
  const rate = byShape
    ? requestedToCapacityRatioScorer(requestedToCapacityRatio?.shape ?? [])
    : type === 'MostAllocated'
      ? mostAllocated
      : leastAllocated;
  return (_state, { nonZeroRequests }, node) => {
    let sum = 0;
    let weights = 0;
    for (const { name, weight } of resources) {
      const wanted = resourceValue(nonZeroRequests, name);
      const share = allocationOf(node, name, { wanted, requested: node.nonZeroRequested, devices });
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
