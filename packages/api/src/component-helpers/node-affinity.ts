import type { Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec } from '../generated/types/core-v1.ts';
import { selectorFromRequirements, type LabelOperator, type LabelRequirement } from '../selectors/label-selector.ts';

type NodePredicate = (node: Node) => boolean;
const matchesNoNode: NodePredicate = () => false;

const labelOperators: Readonly<Record<string, LabelOperator>> = {
  In: 'in',
  NotIn: 'notin',
  Exists: 'exists',
  DoesNotExist: '!',
  Gt: 'gt',
  Lt: 'lt',
};

/** Compiles the matchExpressions of a term. @throws ParseError if a requirement is not a valid label selector requirement */
function compileMatchExpressions(expressions: readonly NodeSelectorRequirement[]): NodePredicate | undefined {
  const requirements: LabelRequirement[] = [];
  for (const { key, operator, values = [] } of expressions) {
    const labelOperator = Object.hasOwn(labelOperators, operator) ? labelOperators[operator] : undefined;
    if (labelOperator === undefined) return undefined;
    requirements.push({ key, operator: labelOperator, values });
  }
  const selector = selectorFromRequirements(requirements);
  return ({ metadata }) => selector.matches(metadata?.labels);
}

/** Compiles the matchFields of a term. Only `metadata.name` is supported; any other field has the value ''. */
function compileMatchFields(fields: readonly NodeSelectorRequirement[]): NodePredicate | undefined {
  for (const { operator, values = [] } of fields) if ((operator !== 'In' && operator !== 'NotIn') || values.length !== 1) return undefined;
  return ({ metadata }) => {
    const name = metadata?.name ?? '';
    // upstream does not evaluate field requirements for a node without a name
    return (
      name === '' ||
      fields.every(({ key, operator, values }) => ((key === 'metadata.name' ? name : '') === values?.[0]) === (operator === 'In'))
    );
  };
}

function compileTerm({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): NodePredicate {
  if (matchExpressions.length === 0 && matchFields.length === 0) return matchesNoNode;
  try {
    const byLabels = compileMatchExpressions(matchExpressions);
    const byFields = compileMatchFields(matchFields);
    if (byLabels === undefined || byFields === undefined) return matchesNoNode;
    if (matchFields.length === 0) return byLabels;
    return (node) => byLabels(node) && byFields(node);
  } catch {
    return matchesNoNode;
  }
}

/** The compiled terms by term object. A scheduler matches the same term against every node, and API objects are immutable. */
const compiledTerms = new WeakMap<NodeSelectorTerm, NodePredicate>();

/**
 * Returns true if the node meets all requirements of the term (k8s.io/component-helpers/scheduling/corev1/nodeaffinity).
 *
 * An empty term matches no node. A term with an invalid requirement matches no node either: an unknown operator, `In` without values, `Gt`
 * or `Lt` without exactly one int64, a key or value that no label can have, a field requirement other than `In` or `NotIn` one value.
 */
export function matchesNodeSelectorTerm(term: NodeSelectorTerm, node: Node): boolean {
  let matches = compiledTerms.get(term);
  if (matches === undefined) compiledTerms.set(term, (matches = compileTerm(term)));
  return matches(node);
}

/** Returns true if the node matches at least one term of the selector. A selector without terms matches no node. */
export function matchesNodeSelector(selector: Partial<NodeSelector>, node: Node): boolean {
  for (const term of selector.nodeSelectorTerms ?? []) if (matchesNodeSelectorTerm(term, node)) return true;
  return false;
}

/** Returns true if the node matches `nodeSelector` and the required node affinity of the pod (upstream's GetRequiredNodeAffinity). */
export function matchesRequiredNodeAffinity(spec: PodSpec | undefined, node: Node): boolean {
  const nodeSelector = spec?.nodeSelector;
  if (nodeSelector !== undefined) {
    const labels = node.metadata?.labels;
    for (const key of Object.keys(nodeSelector)) if (labels?.[key] !== nodeSelector[key]) return false;
  }
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || matchesNodeSelector(required, node);
}
