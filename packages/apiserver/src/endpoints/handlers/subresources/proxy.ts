import { ipFamily, isLoopback } from '@oarlock/api/net/ip';
import { badRequest, failure } from '@oarlock/api/status';
import type { Pod, Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import { addressNotAllowed, isProxyable } from '../../../proxy/proxy-addresses.ts';
import type { PipelineResponse } from '../../request/response.ts';
import type { ServedKind } from '../../../registry/served-kind.ts';
import { kubeletLocationOf } from './kubelet-location.ts';

/** The parsed name in a proxy path before `/proxy`: `name`, `name:port` or `scheme:name:port`. */
interface Named {
  readonly scheme: 'http' | 'https' | '';
  readonly name: string;
  /** The port number or port name; '' if the name has none. */
  readonly port: string;
}

/** Parses the name in a proxy path (`SplitSchemeNamePort` of apimachinery); returns undefined if the name is invalid. */
export function schemeNamePort(id: string): Named | undefined {
  const parts = id.split(':');
  const [first = '', second = '', third = ''] = parts;
  const named: Named | undefined =
    parts.length === 1
      ? { scheme: '', name: first, port: '' }
      : parts.length === 2
        ? { scheme: '', name: first, port: second }
        : parts.length === 3 && (first === '' || first === 'http' || first === 'https')
          ? { scheme: first, name: second, port: third }
          : undefined;
  return named?.name === '' ? undefined : named;
}

function parseProxyName(resourceName: string, id: string): Named {
  const found = schemeNamePort(id);
  if (found === undefined) throw badRequest(`invalid ${resourceName} request ${JSON.stringify(id)}`);
  return found;
}

function checkAddress(address: string, allowLoopback: boolean): void {
  if (!isProxyable(address, allowLoopback)) throw addressNotAllowed();
}
const loopback = ({ allowLoopback }: ServedKind) => (allowLoopback ? { allowLoopback } : {});

const unavailable = (message: string) => failure('ServiceUnavailable', message, {});
const portOf = (port: string, scheme: string): number => {
  if (port === '') return scheme === 'https' ? 443 : 80;
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65_535) throw badRequest(`invalid port ${JSON.stringify(port)}`);
  return Number(port);
};

async function admitConnect({ admission }: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<void> {
  const { request } = context;
  await admission.validate(context, {
    operation: 'CONNECT',
    resource: kind.resource,
    object: typeof request.body === 'object' && request.body !== null ? { ...request.body } : undefined,
    old: undefined,
    options: {},
    name: request.name,
  });
}

/** Handles pods/proxy: returns the address and port of the pod to which the request is proxied. */
export async function podProxy(registry: RegistryDependencies, pods: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { namespace, name: id, signal } = context.request;
  const { scheme, name, port } = parseProxyName('pod', id);
  await admitConnect(registry, pods, context);
  const pod = (await registry.reader.getLatest(pods, { namespace, name, signal })).object as Pod;
  const address = pod.status?.podIPs?.[0]?.ip ?? pod.status?.podIP ?? '';
  checkAddress(address, pods.allowLoopback);
  const first = pod.spec?.containers?.flatMap(({ ports = [] }) => ports)[0]?.containerPort;
  return {
    kind: 'proxy',
    scheme: scheme || 'http',
    host: address,
    port: port === '' && first !== undefined ? first : portOf(port, scheme),
    ...loopback(pods),
  };
}

/** Handles services/proxy: returns the endpoint of the Service to which the request is proxied. */
export async function serviceProxy(
  registry: RegistryDependencies,
  services: ServedKind,
  context: RequestContext,
): Promise<PipelineResponse> {
  const { namespace, name: id, signal } = context.request;
  const { scheme, name, port } = parseProxyName('service', id);
  await admitConnect(registry, services, context);
  const service = (await registry.reader.getLatest(services, { namespace, name, signal })).object as Service;
  let portName = port;
  if (/^[+-]?\d+$/.test(port)) {
    const declared = service.spec?.ports?.find((candidate) => candidate.port === Number(port));
    if (declared === undefined) throw unavailable(`no service port ${Number(port)} found for service ${JSON.stringify(name)}`);
    portName = declared.name ?? '';
  }
  const found = endpointOf(registry, services, { namespace, service: name, portName });
  if (found === undefined) throw unavailable(`no endpoints available for service ${JSON.stringify(name)}`);
  checkAddress(found.host, services.allowLoopback);
  return { kind: 'proxy', scheme: scheme || 'http', ...found, ...loopback(services) };
}

/** Returns the address and port of a ready endpoint, chosen at random. Ignores endpoints whose address is not an address of their pod. */
export function endpointOf(
  registry: RegistryDependencies,
  services: Pick<ServedKind, 'allowLoopback'>,
  { namespace, service, portName }: { readonly namespace: string; readonly service: string; readonly portName: string },
): { readonly host: string; readonly port: number } | undefined {
  const slices = registry.servedKind('discovery.k8s.io', 'v1', 'endpointslices');
  const pods = registry.servedKind('', 'v1', 'pods');
  const candidates: { readonly host: string; readonly port: number; readonly pod: string | undefined }[] = [];
  for (const { object } of slices.cache.select({
    namespace,
    key: undefined,
    indexed: undefined,
    matches: ({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'] === service,
  })) {
    const { ports = [], endpoints = [] } = object as EndpointSlice;
    const port = ports?.find((candidate) => (candidate.name ?? '') === portName)?.port;
    if (port === undefined) continue;
    for (const { addresses, conditions, targetRef } of endpoints ?? [])
      if (conditions?.ready !== false && addresses[0] !== undefined)
        candidates.push({ host: addresses[0], port, pod: targetRef?.kind === 'Pod' ? targetRef.name : undefined });
  }
  const start = candidates.length === 0 ? 0 : Math.floor(registry.random.next() * candidates.length);
  for (let i = 0; i < candidates.length; i++) {
    const candidate = candidates[(start + i) % candidates.length];
    if (candidate?.pod === undefined || (isLoopback(candidate.host) && !services.allowLoopback)) continue;
    const pod = pods.cache.get(`${namespace}/${candidate.pod}`)?.object as Pod | undefined;
    const addresses = [pod?.status?.podIP, ...(pod?.status?.podIPs ?? []).map(({ ip }) => ip)];
    if (addresses.includes(candidate.host)) return { host: candidate.host, port: candidate.port };
  }
  return undefined;
}

/** The address to which a Service port resolves, or the reason why it cannot be resolved. */
export type ServiceResolution =
  | { readonly outcome: 'found'; readonly host: string; readonly port: number }
  | { readonly outcome: 'no service' }
  | { readonly outcome: 'no port' }
  | { readonly outcome: 'no endpoints' }
  | { readonly outcome: 'not ready'; readonly portName: string };

/** A reference to a port of a Service. */
export interface ServicePortRef {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
}

/** Resolves a Service port from the watch cache: to a ready endpoint, chosen at random, or to the externalName. */
export function resolveService(registry: RegistryDependencies, { namespace, name, port }: ServicePortRef): ServiceResolution {
  const service = registry.servedKind('', 'v1', 'services').cache.get(`${namespace}/${name}`)?.object as Service | undefined;
  if (service === undefined) return { outcome: 'no service' };
  if (service.spec?.type === 'ExternalName') return { outcome: 'found', host: service.spec.externalName ?? '', port };
  const declared = service.spec?.ports?.find((candidate) => candidate.port === port);
  if (declared === undefined) return { outcome: 'no port' };
  const slices = registry.servedKind('discovery.k8s.io', 'v1', 'endpointslices').cache.select({
    namespace,
    key: undefined,
    indexed: undefined,
    matches: ({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'] === name,
  });
  if (slices.length === 0) return { outcome: 'no endpoints' };
  const portName = declared.name ?? '';
  const candidates = slices.flatMap(({ object }) => {
    const { ports, endpoints } = object as EndpointSlice;
    const at = ports?.find((candidate) => (candidate.name ?? '') === portName)?.port;
    return at === undefined
      ? []
      : (endpoints ?? [])
          .filter(({ conditions, addresses }) => conditions?.ready !== false && addresses.length > 0)
          .map(({ addresses }) => ({ host: addresses[0] ?? '', port: at }));
  });
  const chosen = candidates[Math.floor(registry.random.next() * candidates.length)];
  return chosen === undefined ? { outcome: 'not ready', portName } : { outcome: 'found', ...chosen };
}

/** Handles nodes/proxy: returns the address of the kubelet, or of another port of the node. */
export async function nodeProxy(registry: RegistryDependencies, nodes: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { name: id, signal } = context.request;
  const { scheme, name, port } = parseProxyName('node', id);
  await admitConnect(registry, nodes, context);
  const { host, port: kubeletPort, own } = await kubeletLocationOf(registry, name, signal);
  if (port === '' || port === String(kubeletPort)) return { kind: 'proxy', scheme: 'https', host, port: kubeletPort, kubelet: { own } };
  // host names are checked after they are resolved
  if (ipFamily(host) !== 0) checkAddress(host, nodes.allowLoopback);
  return { kind: 'proxy', scheme: scheme || 'http', host, port: portOf(port, scheme), ...loopback(nodes) };
}
