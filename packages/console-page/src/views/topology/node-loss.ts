import type { KubeObject } from '../../api/client.ts';
import type { Pod } from '../object/workload-kinds.ts';

/** The scheduler evaluates at most this many pods of a node. */
export const maxEvaluated = 200;

/** A DaemonSet's pod and a static pod end with their node: no other node gets them. */
const isBoundToNode = ({ metadata }: KubeObject): boolean =>
  metadata.ownerReferences?.some(({ kind, controller }) => kind === 'Node' || (kind === 'DaemonSet' && controller === true)) === true;

/** Returns the pods that need another node if this one is lost. */
export const displacedPods = (pods: readonly Pod[]): readonly Pod[] => pods.filter((pod) => !isBoundToNode(pod)).slice(0, maxEvaluated);

/** Returns the pod as one that waits for a node. */
export function podWithoutNode(pod: Pod): KubeObject {
  const { nodeName: _, ...spec } = (pod.spec ?? {}) as NonNullable<Pod['spec']>;
  return { ...pod, status: {}, spec };
}
