import { cidrContains, parseCIDRSloppy } from '@oarlock/api/net/cidr';
import type { Labels } from '@oarlock/api/selectors/label-selector';
import type { PeerPod, Protocol } from './peer-pod.ts';
import type { IPBlock, Direction, Peers, PolicyRules, Ports } from './policy-rules.ts';

/** One end of a connection: an address, and the pod that has the address, if any. */
export interface TrafficEnd {
  readonly ip: string;
  readonly pod?: PeerPod;
}

export interface Traffic {
  readonly from: TrafficEnd;
  readonly to: TrafficEnd;
  readonly protocol: Protocol;
  readonly port: number;
}

export interface TrafficDecision {
  readonly direction: Direction;
  readonly allowed: boolean;
  /** `namespace/name` of the NetworkPolicies that isolate the pod in this direction; if empty, all traffic is allowed. */
  readonly isolatedBy: readonly string[];
  /** The rules that allow the connection: each a NetworkPolicy and the index of the rule in the policy's list. */
  readonly allowedBy: readonly { readonly policy: string; readonly rule: number }[];
}

/**
 * Explains whether NetworkPolicies allow a connection: by the egress rules of the source and the ingress rules of the destination.
 * Host-network pods are treated as nodes.
 */
export function explainTraffic(
  traffic: Traffic,
  policies: readonly PolicyRules[],
  namespaces: ReadonlyMap<string, Labels>,
): readonly [egress: TrafficDecision, ingress: TrafficDecision] {
  const { from, to } = traffic;
  const itself = from.pod !== undefined && from.pod === to.pod;
  const verdict = (direction: Direction, pod: PeerPod | undefined, peer: TrafficEnd): TrafficDecision => {
    const isolating = itself || pod === undefined ? [] : policies.filter((policy) => isolates(policy, direction, pod));
    const allowedBy = isolating.flatMap((policy) =>
      (policy[direction] ?? []).flatMap(({ peers, ports }, rule) =>
        matchesPeers(peers, peer, namespaces) && matchesPorts(ports, traffic) ? [{ policy: nameOf(policy), rule }] : [],
      ),
    );
    return { direction, allowed: isolating.length === 0 || allowedBy.length > 0, isolatedBy: isolating.map(nameOf), allowedBy };
  };
  return [verdict('egress', from.pod, to), verdict('ingress', to.pod, from)];
}

const nameOf = ({ namespace, name }: PolicyRules) => `${namespace}/${name}`;
const isolates = (policy: PolicyRules, direction: Direction, { namespace, labels }: PeerPod) =>
  policy[direction] !== undefined && policy.namespace === namespace && policy.pods.matches(labels);

function matchesPeers(peers: Peers | undefined, { ip, pod }: TrafficEnd, namespaces: ReadonlyMap<string, Labels>): boolean {
  if (peers === undefined || peers.blocks.some((block) => blockContains(block, ip))) return true;
  if (pod === undefined) return false;
  return peers.selections.some(
    ({ namespace, namespaces: selector, pods }) =>
      pods.matches(pod.labels) &&
      (namespace === undefined ? selector?.matches(namespaces.get(pod.namespace)) === true : namespace === pod.namespace),
  );
}

function matchesPorts(ports: Ports | undefined, { to, protocol, port }: Traffic): boolean {
  if (ports === undefined) return true;
  return (
    ports.ranges.some(
      (range) => range.protocol === protocol && (range.from === undefined || (range.from <= port && port <= (range.to ?? range.from))),
    ) ||
    ports.names.some(
      (named) =>
        named.protocol === protocol &&
        to.pod?.ports.some((own) => own.name === named.name && own.protocol === protocol && own.port === port) === true,
    )
  );
}

function blockContains({ cidr, except }: IPBlock, ip: string): boolean {
  const inside = (text: string) => {
    const block = parseCIDRSloppy(text);
    return block !== undefined && cidrContains(block, ip);
  };
  return inside(cidr) && !except.some(inside);
}
