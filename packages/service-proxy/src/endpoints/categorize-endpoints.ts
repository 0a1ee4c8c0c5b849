import { isIPv6 } from 'node:net';
import type { ServicePort as ServicePortSpec } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { ProxyEndpoint } from '@oarlock/spi/proxy';

/** Who asks: endpoints may be nearer to one node than to another. */
export interface ProxyNode {
  readonly name: string;
  /** `topology.kubernetes.io/zone`. */
  readonly zone?: string | undefined;
}

interface Candidate extends ProxyEndpoint {
  readonly hints: Endpoint['hints'];
}

/**
 * Where the traffic of a port goes. By the policy Cluster: ready endpoints, the near ones if the slices say which those are (KEP-4444); where none is
 * ready, those that still serve while they terminate (KEP-1669). With `local`, also those that the policy Local wants, by the same rule among
 * those of this node.
 */
export function categorizeEndpoints(
  port: ServicePortSpec,
  slices: readonly EndpointSlice[],
  node: ProxyNode,
  { local }: { readonly local: boolean },
): ProxyEndpoint[] {
  const chosen: Candidate[] = [];
  const all = candidateEndpoints(port, slices, node);
  for (const family of [all.filter(({ ip }) => !isIPv6(ip)), all.filter(({ ip }) => isIPv6(ip))]) {
    const everywhere = new Set(filterByHints(usableEndpoints(family), node));
    const here = local ? usableEndpoints(family.filter((endpoint) => endpoint.local)) : [];
    chosen.push(
      ...everywhere,
      ...here.filter((endpoint) => !everywhere.has(endpoint)).map((endpoint) => ({ ...endpoint, localOnly: true })),
    );
  }
  return chosen
    .map((candidate) => {
      const { hints: _, ...endpoint } = candidate;
      return endpoint;
    })
    .sort((a, b) => (a.ip === b.ip ? a.port - b.port : a.ip < b.ip ? -1 : 1));
}

function candidateEndpoints(port: ServicePortSpec, slices: readonly EndpointSlice[], node: ProxyNode): readonly Candidate[] {
  const found = new Map<string, Candidate>();
  for (const slice of slices) {
    if (slice.addressType === 'FQDN') continue;
    const target = slice.ports?.find(
      ({ name, protocol }) => (name ?? '') === (port.name ?? '') && (protocol ?? 'TCP') === (port.protocol ?? 'TCP'),
    );
    if (target?.port === undefined || target.port === null) continue;
    for (const { addresses, conditions, nodeName, hints } of slice.endpoints ?? []) {
      const [ip] = addresses; // all addresses of an endpoint mean the same; the first one is used
      if (ip === undefined) continue;
      const ready = conditions?.ready ?? true;
      const candidate = {
        ip,
        port: target.port,
        local: nodeName === node.name,
        ready,
        serving: conditions?.serving ?? ready,
        terminating: conditions?.terminating ?? false,
        hints,
      };
      const key = `${ip} ${target.port}`;
      // one that moves from slice to slice is in both for a moment: the ready one counts
      if (found.get(key)?.ready !== true) found.set(key, candidate);
    }
  }
  return [...found.values()];
}

function usableEndpoints(endpoints: readonly Candidate[]): readonly Candidate[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(({ serving, terminating }) => serving && terminating);
}

/** Hints hold when every endpoint has them and one is meant for us: else a node would have nobody to go to. */
function filterByHints(endpoints: readonly Candidate[], { name, zone }: ProxyNode): readonly Candidate[] {
  const meant = (
    of: (hints: NonNullable<Endpoint['hints']>) => readonly { readonly name: string }[] | null | undefined,
    us: string | undefined,
  ) => {
    const hinted = endpoints.map((endpoint) => (endpoint.hints ? (of(endpoint.hints) ?? []) : []));
    if (us === undefined || hinted.some((hints) => hints.length === 0)) return [];
    return endpoints.filter((_, index) => hinted[index]?.some((hint) => hint.name === us));
  };
  const onNode = meant(({ forNodes }) => forNodes, name);
  if (onNode.length > 0) return onNode;
  const inZone = meant(({ forZones }) => forZones, zone);
  return inZone.length > 0 ? inZone : endpoints;
}
