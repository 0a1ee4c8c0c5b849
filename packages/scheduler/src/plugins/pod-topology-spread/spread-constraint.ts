import { own } from '@oarlock/api/json/json';
import { matchesRequiredNodeAffinity } from '@oarlock/api/component-helpers/node-affinity';
import { findUntoleratedTaint } from '@oarlock/api/component-helpers/tolerations';
import { selectorFromLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import type { Node, Pod, TopologySpreadConstraint } from '@oarlock/api/types/core-v1';
import type { NodeInfo, PodSelector } from '@oarlock/spi/scheduling';

const hardEffects: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);

/** A compiled constraint of one pod, or a default constraint of all pods with the same owners. */
export interface SpreadConstraint {
  readonly key: string;
  readonly maxSkew: number;
  readonly minDomains: number;
  readonly selector: PodSelector;
  /**
   * Returns true if the pods on the node count for the constraint (nodeAffinityPolicy and nodeTaintsPolicy, KEP-3094). undefined: all nodes count.
   */
  readonly countsNode: ((node: Node) => boolean) | undefined;
}

export const hasAllTopologyKeys = (info: NodeInfo, constraints: readonly { readonly key: string }[]): boolean =>
  constraints.every(({ key }) => info.label(key) !== undefined);

function selectorOf({ metadata }: Pod, { labelSelector, matchLabelKeys = [] }: TopologySpreadConstraint): Selector {
  const added = matchLabelKeys.flatMap((key) => {
    const value = own(metadata?.labels, key);
    return value === undefined ? [] : [{ key, operator: 'In', values: [value] }];
  });
  return selectorFromLabelSelector(
    labelSelector === undefined || added.length === 0
      ? labelSelector
      : { ...labelSelector, matchExpressions: [...(labelSelector.matchExpressions ?? []), ...added] },
  );
}

const hasNodeConstraints = ({ spec }: Pod): boolean =>
  (spec?.nodeSelector ?? spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution) !== undefined;

function constraintOf(pod: Pod, from: TopologySpreadConstraint, selector = selectorOf(pod, from)): SpreadConstraint {
  const namespace = pod.metadata?.namespace ?? '';
  const byAffinity = from.nodeAffinityPolicy !== 'Ignore' && hasNodeConstraints(pod);
  const byTaints = from.nodeTaintsPolicy === 'Honor';
  return {
    key: from.topologyKey,
    maxSkew: from.maxSkew,
    minDomains: from.minDomains ?? 1,
    selector: {
      key: `spread ${namespace} ${selector.matchesNothing ? '<none>' : selector.toString()}`,
      namespaces: new Set([namespace]),
      matches: ({ metadata }) => metadata?.deletionTimestamp === undefined && selector.matches(metadata?.labels),
    },
    countsNode:
      byAffinity || byTaints
        ? (node) =>
            (!byAffinity || matchesRequiredNodeAffinity(pod.spec, node)) &&
            (!byTaints || findUntoleratedTaint(node.spec?.taints, pod.spec?.tolerations ?? [], hardEffects) === undefined)
        : undefined,
  };
}

const ownConstraints = ({ spec }: Pod, when: string) =>
  (spec?.topologySpreadConstraints ?? []).filter(({ whenUnsatisfiable }) => whenUnsatisfiable === when);

const constraintsByPod = new WeakMap<Pod, Map<string, readonly SpreadConstraint[]>>();
/** Returns the compiled constraints of a pod. Cached per pod object. */
export function podConstraints(pod: Pod, when: string): readonly SpreadConstraint[] {
  const compiled = constraintsByPod.get(pod) ?? new Map<string, readonly SpreadConstraint[]>();
  constraintsByPod.set(pod, compiled);
  let found = compiled.get(when);
  if (found === undefined) compiled.set(when, (found = ownConstraints(pod, when).map((each) => constraintOf(pod, each))));
  return found;
}

const defaultConstraintsBySelector = new WeakMap<Selector, Map<TopologySpreadConstraint, SpreadConstraint>>();
/** Returns a compiled default constraint. Cached per selector, unless the pod's node affinity restricts the nodes that count. */
export function compileDefaultConstraint(pod: Pod, from: TopologySpreadConstraint, selector: Selector): SpreadConstraint {
  if (hasNodeConstraints(pod)) return constraintOf(pod, from, selector);
  const compiled = defaultConstraintsBySelector.get(selector) ?? new Map<TopologySpreadConstraint, SpreadConstraint>();
  defaultConstraintsBySelector.set(selector, compiled);
  let found = compiled.get(from);
  if (found === undefined) compiled.set(from, (found = constraintOf(pod, from, selector)));
  return found;
}
