import { parseIPNumber } from '@oarlock/api/net/ip-number';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { TrafficEnd } from '@oarlock/network-policy/explain-traffic';
import { peerPod, type PeerPod } from '@oarlock/network-policy/peer-pod';
import type { TrafficGroup } from '@oarlock/network-policy/traffic-graph';
import type { KubeObject } from '../../../api/client.ts';
import { compareText } from '../../../components/compare-text.ts';

export type PolicyPod = KubeObject & Pod;

/** A pod that NetworkPolicies apply to, and the workload that it belongs to. */
export interface Peer {
  readonly pod: PeerPod;
  /** `namespace/name` of the pod. */
  readonly name: string;
  /** `namespace/name` of the Deployment or other owner; of the pod if it has none. */
  readonly workload: string;
}

/** Returns the pods with an address of their own, by name. */
export function peersOf(pods: readonly PolicyPod[]): readonly Peer[] {
  return pods
    .flatMap((object): Peer[] => {
      const pod = peerPod(object);
      if (pod === undefined) return [];
      return [{ pod, name: `${pod.namespace}/${pod.name}`, workload: `${pod.namespace}/${workloadName(object)}` }];
    })
    .toSorted((a, b) => compareText(a.name, b.name));
}

/** Returns the name of the owner. The name of a Deployment is that of its ReplicaSet without the hash. */
function workloadName({ metadata: { name, labels = {}, ownerReferences = [] } }: KubeObject): string {
  const owner = ownerReferences.find(({ controller }) => controller === true);
  if (owner === undefined) return name;
  const hash = labels['pod-template-hash'];
  return hash !== undefined && owner.kind === 'ReplicaSet' && owner.name.endsWith(`-${hash}`)
    ? owner.name.slice(0, -hash.length - 1)
    : owner.name;
}

/** Returns the workloads with their pods, at most `max`. */
export function groupsOf(peers: readonly Peer[], max: number): readonly TrafficGroup[] {
  const groups = new Map<string, PeerPod[]>();
  for (const { pod, workload } of peers) {
    const members = groups.get(workload);
    if (members !== undefined) members.push(pod);
    else if (groups.size < max) groups.set(workload, [pod]);
  }
  return [...groups.entries()].map(([id, pods]) => ({ id, pods }));
}

/** Resolves `namespace/pod`, the name of a workload (its first pod), or an IP address; undefined for other text. */
export function endOf(text: string, peers: readonly Peer[]): TrafficEnd | undefined {
  if (parseIPNumber(text) !== undefined) {
    const owner = peers.find(({ pod }) => pod.ips.includes(text));
    return owner === undefined ? { ip: text } : { ip: text, pod: owner.pod };
  }
  const peer = peers.find(({ name }) => name === text) ?? peers.find(({ workload }) => workload === text);
  const [ip] = peer?.pod.ips ?? [];
  return peer === undefined || ip === undefined ? undefined : { ip, pod: peer.pod };
}
