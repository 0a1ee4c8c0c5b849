import { milliValue } from '@oarlock/api/values/quantity';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Endpoint } from '@oarlock/api/types/discovery-v1';

/** Maximum overload of an endpoint relative to its expected share, as a fraction (KEP-2433). */
const overloadThreshold = 0.2;
const controlPlane = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];
const zoneLabel = 'topology.kubernetes.io/zone';

/** The fraction of the cluster's CPU by zone. Undefined if a node lacks CPU or zone information, or if there are fewer than two zones. */
export type ZoneCpuRatios = ReadonlyMap<string, number> | undefined;

/** Returns the properties of a node that affect the CPU ratios, as text for comparison. */
export const topologyText = ({ metadata, status }: Node): string =>
  JSON.stringify([
    metadata?.labels?.[zoneLabel],
    controlPlane.some((label) => metadata?.labels?.[label] !== undefined),
    isReady(status),
    status?.allocatable?.['cpu'],
  ]);
const isReady = (status: Node['status']) => status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;

/** Returns the CPU ratios of zones. Ignores control plane nodes and nodes that are not ready. */
export function zoneCpuRatios(nodes: Iterable<Node>): ZoneCpuRatios {
  const byZone = new Map<string, number>();
  let sum = 0;
  for (const { metadata, status } of nodes) {
    if (controlPlane.some((label) => metadata?.labels?.[label] !== undefined) || !isReady(status)) continue;
    const zone = metadata?.labels?.[zoneLabel] ?? '';
    const cpu = milliValue(status?.allocatable?.['cpu'] ?? '0');
    if (zone === '' || cpu === 0) return undefined;
    byZone.set(zone, (byZone.get(zone) ?? 0) + cpu);
    sum += cpu;
  }
  return byZone.size < 2 ? undefined : new Map([...byZone].map(([zone, cpu]) => [zone, cpu / sum]));
}

/** Why endpoints get no hints: the message of upstream's Event TopologyAwareHintsDisabled. */
export class TopologyHintsFailure {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}
const insufficientNodes = 'Insufficient Node information: allocatable CPU or zone not specified on one or more nodes';
const overloaded = 'Unable to allocate minimum required endpoints to each zone without exceeding overload threshold';

/**
 * Assigns each ready endpoint to a zone in proportion to the zones' CPU, preferring the zone of the endpoint, so that no endpoint exceeds the
 * overload threshold (topology mode Auto upstream). Returns the zone of each endpoint, or the reason why this is not possible.
 */
export function allocateHints(endpoints: readonly Endpoint[], shares: ZoneCpuRatios): ReadonlyMap<Endpoint, string> | TopologyHintsFailure {
  const ready = endpoints.filter(({ conditions }) => conditions?.ready !== false);
  if (shares === undefined) return new TopologyHintsFailure(insufficientNodes);
  const counts = `(${ready.length} endpoints, ${shares.size} zones)`;
  if (shares.size > ready.length) return new TopologyHintsFailure(`Insufficient number of endpoints ${counts}`);
  const minimum = new Map([...shares].map(([zone, share]) => [zone, Math.ceil((share * ready.length) / (1 + overloadThreshold))]));
  if ([...minimum.values()].reduce((a, b) => a + b, 0) > ready.length) return new TopologyHintsFailure(`${overloaded} ${counts}`);
  if (ready.some(({ zone }) => !zone)) return new TopologyHintsFailure('One or more endpoints do not have a zone specified');
  const allocated = new Map<string, Endpoint[]>([...shares.keys()].map((zone) => [zone, []]));
  // sorted by uid, so that the allocation is deterministic
  const ordered = ready.toSorted((a, b) => ((a.targetRef?.uid ?? '') < (b.targetRef?.uid ?? '') ? -1 : 1));
  const unassigned: Endpoint[] = [];
  for (const endpoint of ordered) (allocated.get(endpoint.zone ?? '') ?? unassigned).push(endpoint);
  const expectedCount = (zone: string) => (shares.get(zone) ?? 0) * ready.length;
  /** Returns the zone with the lowest (sign 1) or highest (sign -1) ratio of allocated to expected endpoints. */
  const extreme = (sign: 1 | -1) =>
    [...allocated].toSorted(([a, x], [b, y]) => sign * (x.length / expectedCount(a) - y.length / expectedCount(b)) || (a < b ? -1 : 1))[0];
  for (const endpoint of unassigned) extreme(1)?.[1].push(endpoint);
  for (;;) {
    const [receivingZone, receiving] = [...allocated].find(([zone, list]) => list.length < (minimum.get(zone) ?? 0)) ?? [];
    const [givingZone, giving] = extreme(-1) ?? [];
    if (receivingZone === undefined || receiving === undefined || giving === undefined || receivingZone === givingZone) break;
    const moved = giving.pop();
    if (moved === undefined) break;
    receiving.push(moved);
  }
  return new Map([...allocated].flatMap(([zone, list]) => list.map((endpoint) => [endpoint, zone] as const)));
}
