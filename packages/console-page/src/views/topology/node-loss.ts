import type { KubeObject } from '../../api/client.ts';
import type { Pod } from '../object/workload-kinds.ts';

/** The scheduler evaluates at most this many pods of a node. */
export const maxEvaluated = 200;

/** A DaemonSet's pod and a static pod end with their node: no other node gets them. */
const isBoundToNode = ({ metadata }: KubeObject): boolean =>
  metadata.ownerReferences?.some(({ kind, controller }) => kind === 'Node' || (kind === 'DaemonSet' && controller === true)) === true;

/** Returns the pods that need another node if this one is lost. */
export const displacedPods = (pods: readonly Pod[]): readonly Pod[] => pods.filter((pod) => !isBoundToNode(pod)).slice(0, maxEvaluated);

interface NodeSelectorTerm {
  readonly matchExpressions?: readonly object[];
  readonly matchFields?: readonly object[];
}
interface Affinity {
  readonly nodeAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: { readonly nodeSelectorTerms: readonly NodeSelectorTerm[] };
    readonly preferredDuringSchedulingIgnoredDuringExecution?: readonly object[];
  };
  readonly [field: string]: unknown;
}

/** Returns the pod without a node, and with an affinity that excludes the node from the nodes that its own affinity allows. */
export function podWithoutNode(pod: Pod, node: string): KubeObject {
  const { nodeName: _, ...spec } = (pod.spec ?? {}) as NonNullable<Pod['spec']> & { readonly affinity?: Affinity };
  const { affinity = {} } = spec;
  const required = affinity.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [{}];
  const excluded = { key: 'metadata.name', operator: 'NotIn', values: [node] };
  const nodeSelectorTerms = required.map((term) => ({ ...term, matchFields: [...(term.matchFields ?? []), excluded] }));
  return {
    ...pod,
    status: {},
    spec: {
      ...spec,
      affinity: {
        ...affinity,
        nodeAffinity: { ...affinity.nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
      },
    },
  };
}
