import { milliValue } from '@oarlock/api/quantity';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Endpoint } from '@oarlock/api/types/discovery-v1';

/** So much more than its share an endpoint may have to carry. KEP-2433. */
const overload = 0.2;
const controlPlane = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];
const zoneLabel = 'topology.kubernetes.io/zone';

/** Which part of the cluster's processors is in each zone; undefined when that is not known of every node, or there are less than two zones. */
export type ZoneShares = ReadonlyMap<string, number> | undefined;

/** What of a node the shares are made of. */
export const shareText = ({ metadata, status }: Node): string =>
  JSON.stringify([
    metadata?.labels?.[zoneLabel],
    controlPlane.some((label) => metadata?.labels?.[label] !== undefined),
    isReady(status),
    status?.allocatable?.['cpu'],
  ]);
const isReady = (status: Node['status']) => status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;

/** Nodes of the control plane and those that are not ready do not count. */
export function zoneShares(nodes: Iterable<Node>): ZoneShares {
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

export type ShareRefusal = { readonly reason: string; readonly message: string };
const refusals = {
  nodes: {
    reason: 'InsufficientNodeInfo',
    message: 'Insufficient Node information: allocatable CPU or zone not specified on one or more nodes',
  },
  endpoints: {
    reason: 'InsufficientNumberOfEndpoints',
    message: 'Insufficient number of endpoints, impossible to safely allocate proportionally',
  },
  minimum: {
    reason: 'MinAllocationExceedsOverloadThreshold',
    message: 'Minimum allocation of required endpoints exceeds available endpoints',
  },
  zone: { reason: 'NoZoneSpecified', message: 'One or more endpoints do not have a zone specified' },
} as const satisfies Record<string, ShareRefusal>;

/**
 * Shares ready endpoints out among zones by their processors, most of them to their own: no endpoint carries more than a fifth above its share. The zone of each, by its
 * place in the list; those that are not ready have none. Upstream's topology mode Auto.
 */
export function shareOut(endpoints: readonly Endpoint[], shares: ZoneShares): ReadonlyMap<Endpoint, string> | ShareRefusal {
  const ready = endpoints.filter(({ conditions }) => conditions?.ready !== false);
  if (shares === undefined) return refusals.nodes;
  if (shares.size > ready.length) return refusals.endpoints;
  if (ready.some(({ zone }) => !zone)) return refusals.zone;
  const minimum = new Map([...shares].map(([zone, share]) => [zone, Math.ceil((share * ready.length) / (1 + overload))]));
  if ([...minimum.values()].reduce((a, b) => a + b, 0) > ready.length) return refusals.minimum;
  const held = new Map<string, Endpoint[]>([...shares.keys()].map((zone) => [zone, []]));
  // an order of its own, so that the same endpoints always serve the same zones
  const ordered = ready.toSorted((a, b) => ((a.targetRef?.uid ?? '') < (b.targetRef?.uid ?? '') ? -1 : 1));
  const strays: Endpoint[] = [];
  for (const endpoint of ordered) (held.get(endpoint.zone ?? '') ?? strays).push(endpoint);
  const wanted = (zone: string) => (shares.get(zone) ?? 0) * ready.length;
  /** The zone that has most, or least, of what it is to have. */
  const extreme = (sign: 1 | -1) =>
    [...held].toSorted(([a, x], [b, y]) => sign * (x.length / wanted(a) - y.length / wanted(b)) || (a < b ? -1 : 1))[0];
  for (const stray of strays) extreme(1)?.[1].push(stray);
  for (;;) {
    const [poor, own] = [...held].find(([zone, list]) => list.length < (minimum.get(zone) ?? 0)) ?? [];
    const [rich, theirs] = extreme(-1) ?? [];
    if (poor === undefined || own === undefined || theirs === undefined || poor === rich) break;
    const moved = theirs.pop();
    if (moved === undefined) break;
    own.push(moved);
  }
  return new Map([...held].flatMap(([zone, list]) => list.map((endpoint) => [endpoint, zone] as const)));
}
