import type { KubeObject } from '../../api/client.ts';
import { compareText } from '../../components/compare-text.ts';
import type { FlowBox, FlowEdge } from '../../components/flow.ts';

export interface Service extends KubeObject {
  readonly spec?: {
    readonly type?: string;
    readonly clusterIP?: string;
    readonly externalName?: string;
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports?: readonly { readonly port: number; readonly protocol?: string }[];
  };
}
export interface EndpointSlice extends KubeObject {
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    readonly conditions?: { readonly ready?: boolean; readonly serving?: boolean; readonly terminating?: boolean };
    readonly targetRef?: { readonly kind?: string; readonly name?: string };
    readonly nodeName?: string;
  }[];
}
interface Backend {
  readonly service?: { readonly name: string };
}
export interface Ingress extends KubeObject {
  readonly spec?: {
    readonly defaultBackend?: Backend;
    readonly rules?: readonly { readonly http?: { readonly paths?: readonly { readonly backend: Backend }[] } }[];
  };
}

/** `terminating`: the endpoint ends, and gets traffic only if no other is ready. */
export type EndpointState = 'ready' | 'notReady' | 'terminating';

/** An endpoint of a Service: a pod, or an address without one. */
export interface FlowEndpoint {
  readonly name: string;
  readonly isPod: boolean;
  readonly addresses: readonly string[];
  /** '' for an endpoint without a node. */
  readonly node: string;
  readonly state: EndpointState;
}
export interface ServiceFlow {
  readonly service: Service;
  /** The Ingresses that send to the Service. */
  readonly ingresses: readonly string[];
  readonly endpoints: readonly FlowEndpoint[];
}

const serviceLabel = 'kubernetes.io/service-name';

const keyOf = (namespace: string | undefined, name: string): string => `${namespace ?? ''}/${name}`;

/** Returns the Services by name with what sends to them and where they send to. */
export function serviceFlows(
  services: readonly Service[],
  slices: readonly EndpointSlice[],
  ingresses: readonly Ingress[],
): readonly ServiceFlow[] {
  const endpoints = new Map<string, Map<string, FlowEndpoint>>();
  for (const { metadata, endpoints: items } of slices) {
    const key = keyOf(metadata.namespace, metadata.labels?.[serviceLabel] ?? '');
    const known = endpoints.get(key) ?? new Map<string, FlowEndpoint>();
    endpoints.set(key, known);
    for (const item of items ?? []) {
      const endpoint = endpointOf(item);
      const { addresses = [] } = known.get(endpoint.name) ?? {}; // a pod has one slice for each family of addresses
      known.set(endpoint.name, { ...endpoint, addresses: [...new Set([...addresses, ...endpoint.addresses])] });
    }
  }
  const senders = sendersOf(ingresses);
  return services
    .map((service) => {
      const key = keyOf(service.metadata.namespace, service.metadata.name);
      return {
        service,
        ingresses: senders.get(key) ?? [],
        endpoints: [...(endpoints.get(key)?.values() ?? [])].toSorted((a, b) => compareText(a.name, b.name)),
      };
    })
    .toSorted((a, b) => compareText(nameOf(a.service), nameOf(b.service)));
}

/** Conditions that are absent are interpreted as in the API: ready, not terminating. */
function endpointOf({
  addresses,
  conditions = {},
  targetRef,
  nodeName = '',
}: NonNullable<EndpointSlice['endpoints']>[number]): FlowEndpoint {
  const isPod = targetRef?.kind === 'Pod' && targetRef.name !== undefined;
  return {
    name: isPod ? (targetRef.name ?? '') : (addresses[0] ?? ''),
    isPod,
    addresses,
    node: nodeName,
    state: conditions.terminating === true ? 'terminating' : conditions.ready === false ? 'notReady' : 'ready',
  };
}

function sendersOf(ingresses: readonly Ingress[]): ReadonlyMap<string, readonly string[]> {
  const senders = new Map<string, Set<string>>();
  for (const { metadata, spec } of ingresses) {
    const backends = [
      spec?.defaultBackend,
      ...(spec?.rules ?? []).flatMap(({ http }) => (http?.paths ?? []).map(({ backend }) => backend)),
    ];
    for (const name of backends.flatMap((backend) => backend?.service?.name ?? [])) {
      const key = keyOf(metadata.namespace, name);
      senders.set(key, (senders.get(key) ?? new Set<string>()).add(metadata.name));
    }
  }
  return new Map([...senders].map(([key, names]) => [key, [...names].toSorted()]));
}

export const nameOf = ({ metadata: { namespace = '', name } }: KubeObject): string => `${namespace}/${name}`;

/** Returns the drawing of flows: Ingresses, Services, endpoints and nodes. Columns without boxes are left out. */
export function flowDrawing(flows: readonly ServiceFlow[]): {
  readonly columns: readonly (readonly FlowBox[])[];
  readonly edges: readonly FlowEdge[];
} {
  const columns = [new Map<string, string>(), new Map<string, string>(), new Map<string, string>(), new Map<string, string>()] as const;
  const edges = new Map<string, FlowEdge>();
  const add = (column: number, name: string, label = name): string => {
    const id = `${column} ${name}`;
    columns[column]?.set(id, label);
    return id;
  };
  const connect = (from: string, to: string, isReady: boolean) => {
    const key = `${from} > ${to}`;
    if (edges.get(key)?.reach !== 'all') edges.set(key, { from, to, reach: isReady ? 'all' : 'some' });
  };
  for (const { service, ingresses, endpoints } of flows) {
    const target = add(1, nameOf(service));
    for (const ingress of ingresses) connect(add(0, keyOf(service.metadata.namespace, ingress)), target, true);
    for (const { name, node, state } of endpoints) {
      const pod = add(2, keyOf(service.metadata.namespace, name), name);
      connect(target, pod, state === 'ready');
      if (node !== '') connect(pod, add(3, node), state === 'ready');
    }
  }
  return {
    columns: columns.filter((column) => column.size > 0).map((column) => [...column].map(([id, label]) => ({ id, label }))),
    edges: [...edges.values()],
  };
}
