import { selectorFromObject, type Selector } from '@oarlock/api/label-selector';
import type { Node, Pod, TopologySpreadConstraint } from '@oarlock/api/types/core-v1';
import type { NodeInfo, PodSelection } from '@oarlock/spi/scheduling';
import { matchesRequired } from './node-affinity-match.ts';
import { untolerated } from './tolerations.ts';

const hard: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);

/** A constraint as it is for one pod, or for all pods alike. */
export interface Constraint {
  readonly key: string;
  readonly maxSkew: number;
  readonly minDomains: number;
  readonly selection: PodSelection;
  /** Whether the pods of a node count at all (KEP-3094). Undefined: those of all nodes do. */
  readonly includes: ((node: Node) => boolean) | undefined;
}

export const hasAll = (info: NodeInfo, constraints: readonly { readonly key: string }[]): boolean =>
  constraints.every(({ key }) => info.label(key) !== undefined);

function selectorOf({ metadata }: Pod, { labelSelector, matchLabelKeys = [] }: TopologySpreadConstraint): Selector {
  const own = matchLabelKeys.flatMap((key) => {
    const value = metadata?.labels?.[key];
    return value === undefined ? [] : [{ key, operator: 'In', values: [value] }];
  });
  return selectorFromObject(
    labelSelector === undefined || own.length === 0
      ? labelSelector
      : { ...labelSelector, matchExpressions: [...(labelSelector.matchExpressions ?? []), ...own] },
  );
}

const asksForNodes = ({ spec }: Pod): boolean =>
  (spec?.nodeSelector ?? spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution) !== undefined;

function constraintOf(pod: Pod, from: TopologySpreadConstraint, selector = selectorOf(pod, from)): Constraint {
  const namespace = pod.metadata?.namespace ?? '';
  const byAffinity = from.nodeAffinityPolicy !== 'Ignore' && asksForNodes(pod);
  const byTaints = from.nodeTaintsPolicy === 'Honor';
  return {
    key: from.topologyKey,
    maxSkew: from.maxSkew,
    minDomains: from.minDomains ?? 1,
    selection: {
      key: `spread ${namespace} ${selector.none ? '<none>' : selector.toString()}`,
      namespaces: new Set([namespace]),
      selects: ({ metadata }) => metadata?.deletionTimestamp === undefined && selector.matches(metadata?.labels),
    },
    includes:
      byAffinity || byTaints
        ? (node) =>
            (!byAffinity || matchesRequired(pod, node)) &&
            (!byTaints || untolerated(node.spec?.taints, pod.spec?.tolerations ?? [], hard) === undefined)
        : undefined,
  };
}

const own = ({ spec }: Pod, when: string) =>
  (spec?.topologySpreadConstraints ?? []).filter(({ whenUnsatisfiable }) => whenUnsatisfiable === when);

const known = new WeakMap<Pod, Map<string, readonly Constraint[]>>();
/** Those that a pod itself asks for, compiled once. */
export function compiledOnce(pod: Pod, when: string): readonly Constraint[] {
  const compiled = known.get(pod) ?? new Map<string, readonly Constraint[]>();
  known.set(pod, compiled);
  let found = compiled.get(when);
  if (found === undefined) compiled.set(when, (found = own(pod, when).map((each) => constraintOf(pod, each))));
  return found;
}

const defaultsKnown = new WeakMap<Selector, Map<TopologySpreadConstraint, Constraint>>();
/** One that a pod has by default: compiled once for all pods of a selector, unless nodes count only as the pod itself asks for them. */
export function defaulted(pod: Pod, from: TopologySpreadConstraint, selector: Selector): Constraint {
  if (asksForNodes(pod)) return constraintOf(pod, from, selector);
  const compiled = defaultsKnown.get(selector) ?? new Map<TopologySpreadConstraint, Constraint>();
  defaultsKnown.set(selector, compiled);
  let found = compiled.get(from);
  if (found === undefined) compiled.set(from, (found = constraintOf(pod, from, selector)));
  return found;
}
