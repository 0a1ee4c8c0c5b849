import { isObject } from '@oarlock/api/json/json';
import { schemaOf } from '@oarlock/api/schema/schema';
import { badRequest, failure, isStatus, notFound } from '@oarlock/api/status';
import type { Node, Pod, PodAttachOptions, PodExecOptions, PodLogOptions, PodPortForwardOptions } from '@oarlock/api/types/core-v1';
import { kubeletCertificate } from '@oarlock/spi/cluster';
import { invalid, notSupported, type FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { conformToSchema } from '../../request/body.ts';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import type { PipelineResponse } from '../../request/response.ts';
import type { ServedKind } from '../../../registry/served-kind.ts';

const kubeletPort = 10_250;
/** The address types of a Node in upstream's default order of preference (--kubelet-preferred-address-types). */
const preferredAddressTypes = ['Hostname', 'InternalDNS', 'InternalIP', 'ExternalDNS', 'ExternalIP'] as const;

/** Handles pods/log, exec, attach and portforward: returns the kubelet to which the request is proxied, and the path. */
export async function kubeletResponse(
  registry: RegistryDependencies,
  pods: ServedKind,
  context: RequestContext,
): Promise<PipelineResponse> {
  const { request } = context;
  const { subresource, name } = request;
  const body = isObject(request.body) ? request.body : request.query;
  if (subresource === 'log') validatePodLogOptions(name, optionsOf<PodLogOptions>(body, 'PodLogOptions'));
  const { object } = await registry.reader.getLatest(pods, request);
  const pod = object as Pod;
  const { admission } = registry;
  if (subresource !== 'log') {
    await admission.validate(context, {
      operation: 'CONNECT',
      resource: pods.resource,
      object: isObject(request.body) ? { ...request.body } : undefined,
      old: undefined,
      options: {},
      name,
    });
  }
  const path = pathOf(pod, subresource, body);
  const nodeName = pod.spec?.nodeName ?? '';
  // the log of a pod without a node is empty
  if (nodeName === '' && subresource === 'log') return { kind: 'nothing' };
  if (nodeName === '') throw badRequest(`pod ${name} does not have a host assigned`);
  const kubelet = await kubeletLocationOf(registry, nodeName, request.signal);
  return { kind: 'kubelet', nodeName, ...kubelet, path, upgrade: subresource !== 'log' };
}

/** Returns the address of the kubelet of a node. */
export async function kubeletLocationOf(
  { reader, servedKind: kind }: RegistryDependencies,
  nodeName: string,
  signal: AbortSignal | undefined,
): Promise<{ readonly host: string; readonly port: number; readonly own: boolean }> {
  const nodes = kind('', 'v1', 'nodes');
  let node: Node;
  try {
    node = (await reader.getLatest(nodes, { namespace: '', name: nodeName, signal })).object as Node;
  } catch (error) {
    if (isStatus(error, 'NotFound')) throw notFound(nodes.resource, nodeName);
    throw error;
  }
  const { addresses = [], daemonEndpoints } = node.status ?? {};
  const hasClusterCertificate = node.metadata?.annotations?.[kubeletCertificate.annotation] === kubeletCertificate.ofCluster;
  for (const type of byAddressPreference(addresses.map((address) => address.type))) {
    const found = addresses.find((address) => address.type === type);
    if (found === undefined) continue;
    return { host: found.address, port: daemonEndpoints?.kubeletEndpoint?.Port || kubeletPort, own: hasClusterCertificate };
  }
  throw failure(
    'InternalError',
    `Internal error occurred: no preferred addresses found; known addresses: [${addresses.map(({ address }) => address).join(' ')}]`,
  );
}

/** Orders the address types of a Node so that addresses that need no name resolution come first. */
function byAddressPreference(present: readonly string[]): readonly string[] {
  return present.includes('InternalIP') ? ['InternalIP', ...preferredAddressTypes] : preferredAddressTypes;
}

function pathOf(pod: Pod, subresource: string, body: Readonly<Record<string, unknown>>): string {
  const { namespace = '', name = '' } = pod.metadata ?? {};
  const podPath = [namespace, name].map(encodeURIComponent).join('/');
  const container = (container: string | undefined) => encodeURIComponent(resolveContainer(pod, container ?? ''));
  switch (subresource) {
    case 'log': {
      const options = optionsOf<PodLogOptions>(body, 'PodLogOptions');
      return `/containerLogs/${podPath}/${container(options.container)}${logQuery(options)}`;
    }
    case 'exec': {
      const options = optionsOf<PodExecOptions>(body, 'PodExecOptions');
      return `/exec/${podPath}/${container(options.container)}${streamQuery(options, options.command ?? [])}`;
    }
    case 'attach': {
      const options = optionsOf<PodAttachOptions>(body, 'PodAttachOptions');
      return `/attach/${podPath}/${container(options.container)}${streamQuery(options, [])}`;
    }
    default: {
      const { ports = [] } = optionsOf<PodPortForwardOptions>(body, 'PodPortForwardOptions');
      return `/portForward/${podPath}${ports.length === 0 ? '' : `?${new URLSearchParams({ port: ports.join(',') })}`}`;
    }
  }
}

/** Decodes options such as PodExecOptions from a body, or from a query, in which all values are strings. */
function optionsOf<T>(options: Readonly<Record<string, unknown>>, kind: string): T {
  const schema = schemaOf({ group: '', version: 'v1', kind });
  const typed: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    const property = schema?.properties?.get(name);
    if (property === undefined || value === undefined) continue;
    if (typeof value !== 'string') typed[name] = value;
    else if (property.type === 'boolean') typed[name] = value !== 'false' && value !== '0';
    else if (property.type === 'integer') typed[name] = Number(value);
    else if (property.type === 'array') typed[name] = property.items?.type === 'integer' ? value.split(',').map(Number) : [value];
    else typed[name] = value;
  }
  return conformToSchema(typed, { gvk: { group: '', version: 'v1', kind }, schema }) as T;
}

/**
 * Returns the name of the requested container, or of the pod's only container if the request names none.
 * @throws StatusError BadRequest if the pod has no such container, or if none is named and the pod has several
 */
export function resolveContainer(pod: Pod, container: string): string {
  const { containers = [], initContainers = [], ephemeralContainers = [] } = pod.spec ?? {};
  const name = pod.metadata?.name ?? '';
  const all = [...initContainers, ...containers, ...ephemeralContainers].map((container) => container.name);
  if (container !== '') {
    if (!all.includes(container)) throw badRequest(`container ${container} is not valid for pod ${name}`);
    return container;
  }
  const [only] = containers;
  if (only !== undefined && containers.length === 1) return only.name;
  throw badRequest(
    `a container name must be specified for pod ${name}${containers.length === 0 ? '' : `, choose one of: [${all.join(' ')}]`}`,
  );
}

const logStreams = ['All', 'Stderr', 'Stdout'];

function validatePodLogOptions(name: string, { tailLines, limitBytes, sinceSeconds, sinceTime, stream }: PodLogOptions): void {
  const errors: FieldError[] = [];
  if (tailLines !== undefined && tailLines < 0) errors.push(invalid('tailLines', tailLines, 'must be greater than or equal to 0'));
  if (limitBytes !== undefined && limitBytes < 1) errors.push(invalid('limitBytes', limitBytes, 'must be greater than 0'));
  if (sinceSeconds !== undefined && sinceTime !== undefined)
    errors.push({
      type: 'FieldValueForbidden',
      field: '',
      message: 'Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified',
    });
  else if (sinceSeconds !== undefined && sinceSeconds < 1) errors.push(invalid('sinceSeconds', sinceSeconds, 'must be greater than 0'));
  if (stream !== undefined && !logStreams.includes(stream)) errors.push(notSupported('stream', stream, logStreams));
  if (errors.length > 0) throw invalidStatus({ group: '', kind: 'PodLogOptions', name }, errors);
}

function logQuery({ follow, previous, timestamps, sinceSeconds, sinceTime, tailLines, limitBytes, stream }: PodLogOptions): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ follow, previous, timestamps })) if (value === true) query.append(name, 'true');
  for (const [name, value] of Object.entries({ sinceSeconds, sinceTime, tailLines, limitBytes, stream }))
    if (value !== undefined) query.append(name, String(value));
  return query.size === 0 ? '' : `?${query}`;
}

function streamQuery({ stdin, stdout, stderr, tty }: PodAttachOptions, command: readonly string[]): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ input: stdin, output: stdout, error: stderr, tty }))
    if (value === true) query.append(name, '1');
  for (const word of command) query.append('command', word);
  return query.size === 0 ? '' : `?${query}`;
}
