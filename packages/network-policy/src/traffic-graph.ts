import type { Labels } from '@oarlock/api/selectors/label-selector';
import { explainTraffic, type TrafficEnd } from './explain-traffic.ts';
import type { PeerPod } from './peer-pod.ts';
import type { PolicyRules } from './policy-rules.ts';
import { portNumberOf, type TrafficPort } from './traffic-port.ts';

/** Pods that a reader regards as one, such as the pods of a Deployment. */
export interface TrafficGroup {
  readonly id: string;
  readonly pods: readonly PeerPod[];
}

/** Whether all, some or none of the connections from pods of one group to pods of another are allowed. */
export type Reach = 'all' | 'some' | 'none';

export interface TrafficEdge {
  readonly from: string;
  readonly to: string;
  readonly reach: Reach;
}

export interface TrafficGraphInput {
  readonly groups: readonly TrafficGroup[];
  readonly policies: readonly PolicyRules[];
  /** The labels of namespaces by name. */
  readonly namespaces: ReadonlyMap<string, Labels>;
  readonly port: TrafficPort;
}

/** Pods of a group that NetworkPolicies cannot distinguish. */
type PodClass = readonly [PeerPod, ...PeerPod[]];

/**
 * Returns which groups may connect to which, for each pair of groups. Destinations without a container port of the name get no connections. Pods that
 * no policy can distinguish are evaluated once, so that the time depends on the number of different pods.
 */
export function trafficGraph({ groups, policies, namespaces, port }: TrafficGraphInput): readonly TrafficEdge[] {
  const classOf = classifier(policies);
  const classes = new Map(groups.map(({ id, pods }) => [id, classesOf(pods, classOf)]));
  const allows = (from: PeerPod, to: PeerPod): boolean => {
    const number = portNumberOf(port, to);
    if (number === undefined) return false;
    const traffic = { from: endOf(from), to: endOf(to), protocol: port.protocol, port: number };
    return explainTraffic(traffic, policies, namespaces).every(({ allowed }) => allowed);
  };
  return groups.flatMap(({ id: from }) =>
    groups.flatMap(({ id: to }): TrafficEdge[] => {
      const verdicts = pairsOf(classes.get(from) ?? [], classes.get(to) ?? []).map(([source, target]) => allows(source, target));
      if (verdicts.length === 0) return [];
      return [{ from, to, reach: verdicts.every(Boolean) ? 'all' : verdicts.some(Boolean) ? 'some' : 'none' }];
    }),
  );
}

const endOf = (pod: PeerPod): TrafficEnd => ({ ip: pod.ips[0] ?? '', pod });

/** Returns a representative pair of pods for each pair of classes. A pod is never paired with itself, because its traffic to itself is always allowed. */
function pairsOf(sources: readonly PodClass[], targets: readonly PodClass[]): readonly (readonly [PeerPod, PeerPod])[] {
  return sources.flatMap(([source]) =>
    targets.flatMap((members): (readonly [PeerPod, PeerPod])[] => {
      const target = members.find((pod) => pod !== source);
      return target === undefined ? [] : [[source, target]];
    }),
  );
}

function classesOf(pods: readonly PeerPod[], classOf: (pod: PeerPod) => string): readonly PodClass[] {
  const classes = new Map<string, [PeerPod, ...PeerPod[]]>();
  for (const pod of pods) {
    const key = classOf(pod);
    const members = classes.get(key);
    if (members === undefined) classes.set(key, [pod]);
    else if (members.length < 2) members.push(pod);
  }
  return [...classes.values()];
}

/** Returns a function whose result is the same for pods that the policies cannot distinguish. */
function classifier(policies: readonly PolicyRules[]): (pod: PeerPod) => string {
  const keys = new Set<string>();
  let hasBlocks = false;
  for (const { pods, ingress = [], egress = [] } of policies) {
    for (const { key } of pods.requirements) keys.add(key);
    for (const { peers } of [...ingress, ...egress]) {
      hasBlocks ||= (peers?.blocks.length ?? 0) > 0;
      for (const selection of peers?.selections ?? []) for (const { key } of selection.pods.requirements) keys.add(key);
    }
  }
  return ({ namespace, labels, ips, ports }) =>
    JSON.stringify([namespace, [...keys].map((key) => labels[key] ?? null), ports, hasBlocks ? ips : []]);
}
