import { isIPv6 } from 'node:net';
import type { ServicePort as ServicePortSpec } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { ProxyEndpoint } from '@oarlock/spi/proxy';

/** The node on which the proxy runs. Topology hints select endpoints for this node and its zone. */
export interface ProxyNode {
  readonly name: string;
  /** The value of the node label `topology.kubernetes.io/zone`. */
  readonly zone?: string | undefined;
}

interface Candidate extends ProxyEndpoint {
  readonly hints: Endpoint['hints'];
}

/** The endpoints of a Service port, and how the node selects among them. */
export interface EndpointSelection {
  readonly slices: readonly EndpointSlice[];
  readonly node: ProxyNode;
}

/**
 * Returns the endpoints of a Service port for this node.
 *
 * For traffic policy Cluster: the ready endpoints, filtered by topology hints (KEP-4444); if no endpoint is ready, the serving terminating
 * endpoints (KEP-1669). With `local`, also the endpoints for traffic policy Local: the same rule, applied to the endpoints of this node.
 */
export function categorizeEndpoints(
  port: ServicePortSpec,
  { slices, node }: EndpointSelection,
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
      const [ip] = addresses; // all addresses of an endpoint are equivalent; kube-proxy uses the first one
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
      // an endpoint that moves between slices is briefly in both: the ready one counts
      if (found.get(key)?.ready !== true) found.set(key, candidate);
    }
  }
  return [...found.values()];
}

function usableEndpoints(endpoints: readonly Candidate[]): readonly Candidate[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(({ serving, terminating }) => serving && terminating);
}

/**
 * Filters endpoints by topology hints if every endpoint has hints and at least one hint matches this node or zone. Otherwise returns all
 * endpoints, because the node could be left without endpoints.
 */
function filterByHints(endpoints: readonly Candidate[], { name, zone }: ProxyNode): readonly Candidate[] {
  const matching = (
    of: (hints: NonNullable<Endpoint['hints']>) => readonly { readonly name: string }[] | null | undefined,
    us: string | undefined,
  ) => {
    const hinted = endpoints.map((endpoint) => (endpoint.hints ? (of(endpoint.hints) ?? []) : []));
    if (us === undefined || hinted.some((hints) => hints.length === 0)) return [];
    return endpoints.filter((_, index) => hinted[index]?.some((hint) => hint.name === us));
  };
  const onNode = matching(({ forNodes }) => forNodes, name);
  if (onNode.length > 0) return onNode;
  const inZone = matching(({ forZones }) => forZones, zone);
  return inZone.length > 0 ? inZone : endpoints;
}
