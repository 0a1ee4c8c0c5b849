import { formatCIDR, parseCIDRSloppy } from '@oarlock/api/net/cidr';
import { everything, selectorFromLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort } from '@oarlock/api/types/networking-v1';
import type { PortName, Selection } from './member-set.ts';
import type { Protocol } from './peer-pod.ts';

export type Direction = 'ingress' | 'egress';
export const directions: readonly Direction[] = ['ingress', 'egress'];

export interface IPBlock {
  readonly cidr: string;
  readonly except: readonly string[];
}

/** The peers of a rule: all that match any of the selections or blocks; undefined: any peer. */
export interface Peers {
  readonly selections: readonly Selection[];
  readonly blocks: readonly IPBlock[];
}

/** A range of ports of one protocol. Without `from`: all ports of the protocol. */
export interface PortRange {
  readonly protocol: Protocol;
  readonly from?: number;
  readonly to?: number;
}

/** The ports of a rule: all that match any of the ranges or names; undefined: all ports of all protocols. */
export interface Ports {
  readonly ranges: readonly PortRange[];
  readonly names: readonly PortName[];
}

export interface PolicyRule {
  readonly peers: Peers | undefined;
  readonly ports: Ports | undefined;
}

/** The rules of a NetworkPolicy by direction. A direction that the policy does not isolate is undefined. */
export interface PolicyRules {
  readonly namespace: string;
  readonly name: string;
  readonly pods: Selector;
  readonly ingress?: readonly PolicyRule[];
  readonly egress?: readonly PolicyRule[];
}

/** Converts a NetworkPolicy (networking.k8s.io/v1) to rules. An absent or empty list of peers or ports means all peers or ports. */
export function policyRules({ metadata = {}, spec }: NetworkPolicy): PolicyRules {
  const { namespace = '', name = '' } = metadata;
  const types = spec?.policyTypes ?? ['Ingress', ...(spec?.egress === undefined ? [] : ['Egress'])];
  const rule = (peers: readonly NetworkPolicyPeer[] = [], ports: readonly NetworkPolicyPort[] = []): PolicyRule => ({
    peers: peers.length === 0 ? undefined : peersOf(peers, namespace),
    ports: ports.length === 0 ? undefined : portsOf(ports),
  });
  return {
    namespace,
    name,
    pods: selectorFromLabelSelector(spec?.podSelector ?? {}),
    ...(types.includes('Ingress') && { ingress: (spec?.ingress ?? []).map(({ from, ports }) => rule(from, ports)) }),
    ...(types.includes('Egress') && { egress: (spec?.egress ?? []).map(({ to, ports }) => rule(to, ports)) }),
  };
}

/** Returns a CIDR in the form that packet rules require: without host bits, and without leading zeros, which some programs read as octal. */
function canonicalCIDR(text: string): string {
  const cidr = parseCIDRSloppy(text);
  return cidr === undefined ? text : formatCIDR(cidr);
}

function peersOf(peers: readonly NetworkPolicyPeer[], namespace: string): Peers {
  return {
    blocks: peers.flatMap(({ ipBlock }) =>
      ipBlock === undefined ? [] : [{ cidr: canonicalCIDR(ipBlock.cidr), except: (ipBlock.except ?? []).map(canonicalCIDR) }],
    ),
    selections: peers.flatMap(({ ipBlock, namespaceSelector, podSelector }) => {
      if (ipBlock !== undefined) return [];
      const pods = podSelector === undefined ? everything : selectorFromLabelSelector(podSelector);
      return [namespaceSelector === undefined ? { namespace, pods } : { namespaces: selectorFromLabelSelector(namespaceSelector), pods }];
    }),
  };
}

function portsOf(ports: readonly NetworkPolicyPort[]): Ports {
  const ranges: PortRange[] = [];
  const names: PortName[] = [];
  for (const { port, endPort, protocol: stated } of ports) {
    const protocol = (stated ?? 'TCP') as Protocol;
    if (typeof port === 'string') names.push({ name: port, protocol });
    else ranges.push({ protocol, ...(port !== undefined && { from: port, to: endPort ?? port }) });
  }
  return { ranges, names };
}
