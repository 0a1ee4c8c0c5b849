import type { Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod } from '@oarlock/api/types/core-v1';

const compare: Readonly<Record<string, (value: string | undefined, wanted: readonly string[]) => boolean>> = {
  In: (value, wanted) => value !== undefined && wanted.includes(value),
  NotIn: (value, wanted) => value === undefined || !wanted.includes(value),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
  Gt: (value, [bound]) => value !== undefined && /^-?\d+$/.test(value) && Number(value) > Number(bound),
  Lt: (value, [bound]) => value !== undefined && /^-?\d+$/.test(value) && Number(value) < Number(bound),
};

const meets = (value: string | undefined, { operator, values }: NodeSelectorRequirement) =>
  compare[operator]?.(value, values ?? []) ?? false;

/** A term without requirements matches nothing. */
export function matchesTerm(node: Node, { matchExpressions = [], matchFields = [] }: NodeSelectorTerm): boolean {
  if (matchExpressions.length === 0 && matchFields.length === 0) return false;
  return (
    matchExpressions.every((each) => meets(node.metadata?.labels?.[each.key], each)) &&
    matchFields.every((each) => each.key === 'metadata.name' && meets(node.metadata?.name, each))
  );
}

export const matchesSelector = (node: Node, { nodeSelectorTerms }: NodeSelector): boolean =>
  nodeSelectorTerms.some((term) => matchesTerm(node, term));

/** Whether a node is one that the pod's node selector and its required node affinity ask for. */
export function matchesRequired({ spec }: Pod, node: Node): boolean {
  for (const [key, value] of Object.entries(spec?.nodeSelector ?? {})) if (node.metadata?.labels?.[key] !== value) return false;
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || matchesSelector(node, required);
}
