import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import type { Labels } from '@oarlock/api/selectors/label-selector';
import type { Container, Pod } from '@oarlock/api/types/core-v1';

export type Protocol = 'TCP' | 'UDP' | 'SCTP';

export interface NamedPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** The properties of a pod that NetworkPolicies refer to. */
export interface PeerPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly ips: readonly string[];
  readonly ports: readonly NamedPort[];
}

const terminalPhases = new Set(['Succeeded', 'Failed']);

/**
 * Returns the pod as a peer of NetworkPolicies. Returns undefined if the pod has no address of its own: before an address is assigned, after
 * the pod has terminated, and for host-network pods, which share the address of the node (NetworkPolicy leaves these to the implementation).
 */
export function peerPod({ metadata = {}, spec, status }: Pod): PeerPod | undefined {
  if (spec?.hostNetwork === true || terminalPhases.has(status?.phase ?? '')) return undefined;
  const ips = (status?.podIPs ?? []).map(({ ip }) => ip ?? '').filter((ip) => ip !== '');
  if (ips.length === 0) return undefined;
  const { namespace = '', name = '', labels = {} } = metadata;
  return { namespace, name, labels, ips, ports: [...(spec?.containers ?? []), ...sidecars(spec?.initContainers)].flatMap(namedPorts) };
}

const sidecars = (containers: readonly Container[] = []) => containers.filter(isRestartableInitContainer);

const namedPorts = ({ ports = [] }: Container): NamedPort[] =>
  ports.flatMap(({ name, containerPort, protocol }) =>
    name === undefined || name === '' ? [] : [{ name, protocol: (protocol ?? 'TCP') as Protocol, port: containerPort }],
  );
