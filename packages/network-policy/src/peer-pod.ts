import type { Labels } from '@oarlock/api/label-selector';
import type { Container, Pod } from '@oarlock/api/types/core-v1';

export type Protocol = 'TCP' | 'UDP' | 'SCTP';

export interface NamedPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** What policies see of a pod. */
export interface PeerPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly ips: readonly string[];
  readonly ports: readonly NamedPort[];
}

const over = new Set(['Succeeded', 'Failed']);

/**
 * The pod as a peer of policies; `undefined` while it has no address of its own: before it has one, when it is over, and when it shares the
 * node's, because then it cannot be told from the node (NetworkPolicy leaves that to the implementation; most do the same).
 */
export function peerPod({ metadata = {}, spec, status }: Pod): PeerPod | undefined {
  if (spec?.hostNetwork === true || over.has(status?.phase ?? '')) return undefined;
  const ips = (status?.podIPs ?? []).map(({ ip }) => ip ?? '').filter((ip) => ip !== '');
  if (ips.length === 0) return undefined;
  const { namespace = '', name = '', labels = {} } = metadata;
  return { namespace, name, labels, ips, ports: [...(spec?.containers ?? []), ...sidecars(spec?.initContainers)].flatMap(namedPorts) };
}

const sidecars = (containers: readonly Container[] = []) => containers.filter(({ restartPolicy }) => restartPolicy === 'Always');

const namedPorts = ({ ports = [] }: Container): NamedPort[] =>
  ports.flatMap(({ name, containerPort, protocol }) =>
    name === undefined || name === '' ? [] : [{ name, protocol: (protocol ?? 'TCP') as Protocol, port: containerPort }],
  );
