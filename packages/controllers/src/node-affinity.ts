import type { Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec } from '@oarlock/api/types/core-v1';

const whole = /^[+-]?[0-9]+$/;

function holds({ operator, values = [] }: NodeSelectorRequirement, value: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'Gt':
    case 'Lt': {
      const [bound = ''] = values;
      if (value === undefined || !whole.test(value) || !whole.test(bound)) return false;
      return operator === 'Gt' ? BigInt(value) > BigInt(bound) : BigInt(value) < BigInt(bound);
    }
    default:
      return false;
  }
}

/** A term without requirements matches nothing. The only field is `metadata.name`. */
function termMatches({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm, { metadata }: Node): boolean {
  return (
    matchExpressions.length + matchFields.length > 0 &&
    matchExpressions.every((requirement) => holds(requirement, metadata?.labels?.[requirement.key])) &&
    matchFields.every((requirement) => requirement.key === 'metadata.name' && holds(requirement, metadata?.name))
  );
}

export const selectsNode = (selector: NodeSelector, node: Node): boolean =>
  selector.nodeSelectorTerms.some((term) => termMatches(term, node));

/** What a pod demands of its node by `nodeSelector` and required node affinity. */
export function fitsNode(spec: PodSpec | undefined, node: Node): boolean {
  const labels = node.metadata?.labels ?? {};
  if (!Object.entries(spec?.nodeSelector ?? {}).every(([key, value]) => labels[key] === value)) return false;
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || selectsNode(required, node);
}
